"""Raw runs: id, curve, every other file by its hash, and the checkpoint of an unfinished one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from normbench.check.finding import Finding
from normbench.check.ids import Ids
from normbench.errors import NormbenchError
from normbench.runs import checkpoint_file, directory
from normbench.runs.directory import Damaged, why
from normbench.runs.run import FINISHED, Run


def check(run: Run, ids: Ids) -> Iterator[Finding]:
    """All findings of one run; for one that is being written only those of its run.json."""
    path = run.path
    again = f"Delete {path} to train this run again"
    if run.status == "damaged":
        yield Finding("damage", path, f"{run.reason}. {again}")
        return
    if directory.is_locked(path):
        return
    if run.config:
        yield from _id(run, ids, again)
    curve, finished = path / "curve.jsonl", run.status in FINISHED
    if finished or curve.exists():
        try:
            directory.curve(run)
        except Damaged as damage:
            yield Finding("damage" if curve.exists() else "missing", curve, f"{damage}. {again}")
    for name, wrong in directory.differences(run) if finished or run.files else ():
        sample = f"Draw it again: normbench sample {path.name[-12:]}" if name.startswith("samples/") else ""
        yield Finding("missing" if wrong == "it is missing" else "damage", path / name, f"{wrong}. {sample or again}")
    if not finished:
        yield from _checkpoint(path, again)


def _id(run: Run, ids: Ids, again: str) -> Iterator[Finding]:
    place = run.path / directory.NAME
    try:
        own = ids.of(run.config, run.id)
    except NormbenchError as error:
        reason = f"the run's id cannot be computed here: {str(error).rstrip('.')}"
        yield Finding("unknown", place, f"{reason}. Choices of your own are found with --config-dir")
    else:
        if own != run.id:
            yield Finding("id", place, f"its configuration gives the id {own}: it was changed, or this version "
                          f"computes otherwise. {again}")  # fmt: skip


def _checkpoint(run: Path, again: str) -> Iterator[Finding]:
    path = run / checkpoint_file.NAME
    if not path.exists():
        return
    try:
        progress, _ = checkpoint_file.read(path)
        begun = (run / "curve.jsonl").read_bytes()[: progress["curve_bytes"]]
        if hashlib.sha256(begun).hexdigest() != progress["curve_sha256"]:
            raise ValueError("curve.jsonl does not begin as it remembers")
    except (OSError, ValueError) as error:
        yield Finding("damage", path, f"{why(error)}. {again}")
