"""Raw runs: id, curve, every other file by its hash, and the checkpoint of an unfinished one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from normbench.check.finding import Finding
from normbench.check.ids import Ids
from normbench.errors import NormbenchError
from normbench.runs import checkpoint_file, curve_file, run_file, store
from normbench.runs.damaged import Damaged, why


def check(stored: store.Stored, ids: Ids) -> Iterator[Finding]:
    """All findings of one run; for one that is being written only those of its run.json."""
    path, content = stored.path, stored.content
    again = f"Delete {path} to train this run again"
    if stored.reason:
        yield Finding("damage", path, f"{stored.reason}. {again}")
    if not stored.id or stored.reason or store.is_locked(path):
        return
    if "config" in content:
        yield from _id(stored, ids, again)
    curve, finished = path / "curve.jsonl", content["status"] in store.FINISHED
    if finished or curve.exists():
        try:
            curve_file.checked(curve, content)
        except Damaged as damage:
            yield Finding("damage" if curve.exists() else "missing", curve, f"{damage}. {again}")
    for name, wrong in run_file.differences(path, content["files"]) if "files" in content else ():
        sample = f"Draw it again: normbench sample {path.name[-12:]}" if name.startswith("samples/") else ""
        yield Finding("missing" if wrong == "it is missing" else "damage", path / name, f"{wrong}. {sample or again}")
    if not finished:
        yield from _checkpoint(path, again)


def _id(stored: store.Stored, ids: Ids, again: str) -> Iterator[Finding]:
    place = stored.path / run_file.NAME
    try:
        own = ids.of(stored.content["config"], stored.id)
    except NormbenchError as error:
        reason = f"the run's id cannot be computed here: {str(error).rstrip('.')}"
        yield Finding("unknown", place, f"{reason}. Choices of your own are found with --config-dir")
    else:
        if own != stored.id:
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
