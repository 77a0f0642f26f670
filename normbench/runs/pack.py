"""Published packs: compressed JSON lines, one per run with its id, labels, configuration, environment and records."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Iterable
from dataclasses import asdict, fields
from pathlib import Path

from normbench.errors import NormbenchError
from normbench.runs import files
from normbench.runs.record import RunRecord

SCHEMA = 1
NAME = "runs.jsonl.gz"
FIELDS = {field.name for field in fields(RunRecord)}


def write(path: Path, runs: Iterable[RunRecord]) -> None:
    """Write a pack whole: sorted by arm, axes and seed, the same bytes for the same runs."""
    ordered = sorted(runs, key=lambda run: (run.control, run.arm, json.dumps(dict(run.axes)), run.seed, run.id))
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0, filename="") as file:
        for run in ordered:
            file.write((json.dumps({"schema": SCHEMA} | asdict(run), sort_keys=True) + "\n").encode())
    files.make_folder(path.parent)
    files.write_whole(path, buffer.getvalue())


def read(path: Path) -> list[RunRecord]:
    """The runs of a pack; none where there is no pack. A damaged pack: NormbenchError naming file and line."""
    if not path.exists():
        return []
    runs = []
    number = 0
    try:
        for number, text in enumerate(gzip.decompress(path.read_bytes()).decode().splitlines(), 1):
            content = json.loads(text)
            if content.pop("schema") != SCHEMA:
                raise NormbenchError(f"{path} line {number}: this version of normbench reads schema {SCHEMA}.")
            runs.append(RunRecord(**{key: value for key, value in content.items() if key in FIELDS}))
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError, zlib.error) as error:
        raise NormbenchError(
            f"{path} is damaged after line {number} ({error}). Restore it (git checkout) or delete it."
        ) from None
    return runs


def merge(published: Iterable[RunRecord], fresh: Iterable[RunRecord]) -> list[RunRecord]:
    """Both together, one per id and length: n never falls; a longer run takes the place of a shorter one."""
    merged: dict[str, RunRecord] = {}
    for run in [*published, *fresh]:
        if run.id not in merged or run.epochs > merged[run.id].epochs:
            merged[run.id] = run
    return list(merged.values())
