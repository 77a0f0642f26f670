"""Published packs: compressed JSON lines, one per run with its id, labels, configuration, environment and records."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Iterable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from normbench.errors import NormbenchError
from normbench.runs import files
from normbench.runs.record import RunRecord

SCHEMA = 1
NAME = "runs.jsonl.gz"
FIELDS = {field.name for field in fields(RunRecord)}
KINDS: dict[str, Any] = {  # what everything else relies on
    **dict.fromkeys(("id", "experiment", "arm", "control", "fidelity", "reason", "status"), str),
    **dict.fromkeys(("seed", "epochs"), int),
    **dict.fromkeys(("axes", "environment", "config"), dict),
    "records": list,
    "seconds": (int, float, type(None)),
}


def dump(runs: Iterable[RunRecord]) -> bytes:
    """The content of a pack: sorted by arm, axes and seed, the same bytes for the same runs."""
    ordered = sorted(runs, key=lambda run: (run.control, run.arm, json.dumps(dict(run.axes)), run.seed, run.id))
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0, filename="") as file:
        for run in ordered:
            file.write((json.dumps({"schema": SCHEMA} | asdict(run), sort_keys=True) + "\n").encode())
    return buffer.getvalue()


def write(path: Path, runs: Iterable[RunRecord]) -> None:
    """Write a pack whole."""
    files.make_folder(path.parent)
    files.write_whole(path, dump(runs))


def read(path: Path) -> list[RunRecord]:
    """The runs of a pack; none where there is no pack. A damaged pack: NormbenchError naming file and line."""
    if not path.exists():
        return []
    runs = []
    number = 0
    try:
        content = path.read_bytes()
        if not content:  # gzip takes no bytes at all for an empty file
            raise ValueError("it is empty")
        for number, text in enumerate(gzip.decompress(content).decode().splitlines(), 1):
            run = json.loads(text)
            if run.pop("schema") != SCHEMA:
                raise NormbenchError(f"{path} line {number}: this version of normbench reads schema {SCHEMA}.")
            runs.append(_checked(RunRecord(**{key: value for key, value in run.items() if key in FIELDS})))
    except (
        OSError,
        EOFError,
        ValueError,
        RecursionError,
        KeyError,
        TypeError,
        AttributeError,
        OverflowError,
        zlib.error,
    ) as error:
        raise NormbenchError(
            f"{path} is damaged after line {number} ({error}). Restore it (git checkout) or delete it."
        ) from None
    return runs


def _checked(run: RunRecord) -> RunRecord:
    """The run, once its parts have the types that everything else relies on; else TypeError."""
    for name, kind in KINDS.items():
        value = getattr(run, name)
        if not isinstance(value, kind) or isinstance(value, bool) or (isinstance(value, int) and abs(value) >= 2**63):
            raise TypeError(f"{name} is {value!r:.40}")
        if isinstance(value, str):
            value.encode()  # a lone surrogate is no text
    for record in run.records:
        if not isinstance(record, dict) or not all(isinstance(record.get(key), int) for key in ("epoch", "step")):
            raise TypeError(f"{record!r:.40} is not a record")
        if not all(isinstance(record.get(key), str) for key in ("split", "mode")):
            raise TypeError(f"{record!r:.40} has no split or mode")
        for key, value in record.items():
            if key not in ("split", "mode", "variant"):
                float(value)  # a number, or the log's "NaN", "Infinity", "-Infinity"
    if not run.records:
        raise TypeError("it has no records")
    return run


def merge(published: Iterable[RunRecord], fresh: Iterable[RunRecord]) -> list[RunRecord]:
    """Both together, one per id: n never falls; a longer run takes the place of a shorter one, fresh labels of old.

    Of two of the same length the one with more evaluations stays.
    """
    merged: dict[str, RunRecord] = {}
    for run in [*published, *fresh]:
        old = merged.get(run.id)
        if old is None or (run.epochs, len(run.records)) >= (old.epochs, len(old.records)):
            merged[run.id] = run
    return list(merged.values())


def paths(results: Path, name: str = NAME) -> list[Path]:
    """The packs, or other files of that name, that lie published: RESULTS/PAPER/ARTIFACT/FIDELITY/NAME.

    A folder whose name begins with a dot is on its way to being something else.
    """
    found = results.glob(f"*/*/*/{name}")
    return sorted(p for p in found if not any(part.startswith(".") for part in p.relative_to(results).parts))
