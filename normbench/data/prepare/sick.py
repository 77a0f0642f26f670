"""SICK: the three files as they are, but for the line ends of the test part."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

SOURCES = {"train": "SICK_train.txt", "trial": "SICK_trial.txt", "test": "SICK_test_annotated.txt"}


def prepare(sources: Path, out: Path, declares: Mapping[str, Any]) -> None:
    """Write `sentence_eval/sick_{train,trial,test}.tsv` below `out`: tab-separated, with the header of SemEval."""
    (out / "sentence_eval").mkdir(parents=True)
    for part, source in SOURCES.items():
        body = (sources / source).read_bytes().replace(b"\r\n", b"\n")
        (out / "sentence_eval" / f"sick_{part}.tsv").write_bytes(body)
