"""MR, CR, SUBJ, MPQA: from lines `label text` in Latin-1 to tab-separated UTF-8 with a header."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

SOURCES = {"mr": "rt-polarity.all", "cr": "custrev.all", "subj": "subj.all", "mpqa": "mpqa.all"}


def prepare(sources: Path, out: Path, declares: Mapping[str, Any]) -> None:
    """Write `sentence_eval/{mr,cr,subj,mpqa}.tsv` below `out`: columns label and text, rows in the sources' order."""
    (out / "sentence_eval").mkdir(parents=True)
    for name, source in SOURCES.items():
        rows = ["label\ttext\n"]
        # Split at line feeds alone: the text holds U+0085, which Python takes for a line end as well.
        for line in (sources / source).read_bytes().decode("latin-1").split("\n")[:-1]:
            label, _, text = line.partition(" ")
            rows.append(f"{label}\t{text.strip()}\n")
        (out / "sentence_eval" / f"{name}.tsv").write_text("".join(rows), encoding="utf-8", newline="\n")
