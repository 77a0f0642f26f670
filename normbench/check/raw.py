"""Raw runs: status, configuration, id, curve, and every other file by its hash."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

from normbench import reading
from normbench.check.finding import Finding
from normbench.check.ids import Ids
from normbench.errors import NormbenchError
from normbench.runs import curve_file, run_file, store
from normbench.runs.damaged import Damaged

AGAIN = "Delete {} to train this run again"


def check(stored: store.Stored, ids: Ids) -> Iterator[Finding]:
    """All findings of one run; for one that is being written only those of its run.json."""
    path = stored.path
    if stored.reason:
        yield Finding("damage", path, f"{stored.reason}. {AGAIN.format('it')}")
    if not stored.id or stored.reason or store.is_locked(path):
        return
    if "config" in stored.content:
        yield from _id(stored, ids)
    if stored.content["status"] in store.FINISHED:
        yield from _finished(stored)
    else:
        yield from _unfinished(stored)


def _id(stored: store.Stored, ids: Ids) -> Iterator[Finding]:
    place = stored.path / run_file.NAME
    try:
        own = ids.of(stored.content["config"], stored.id)
    except NormbenchError as error:
        why = f"the run's id cannot be computed here: {str(error).rstrip('.')}"
        yield Finding("unknown", place, f"{why}. Choices of your own are found with --config-dir")
    else:
        if own != stored.id:
            yield Finding("id", place, f"its configuration gives the id {own}: it was changed, or this version "
                          f"computes otherwise. {AGAIN.format(stored.path)}")  # fmt: skip


def _finished(stored: store.Stored) -> Iterator[Finding]:
    path = stored.path
    try:
        curve_file.checked(path / "curve.jsonl", stored.content)
    except Damaged as damage:
        kind = "damage" if (path / "curve.jsonl").exists() else "missing"
        yield Finding(kind, path / "curve.jsonl", f"{damage}. {AGAIN.format(path)}")
    for name, why in run_file.differences(path, stored.content["files"]):
        sample = f"Draw it again: normbench sample {path.name[-12:]}" if name.startswith("samples/") else ""
        kind = "missing" if why == "it is missing" else "damage"
        yield Finding(kind, path / name, f"{why}. {sample or AGAIN.format(path)}")


def _unfinished(stored: store.Stored) -> Iterator[Finding]:
    """Its curve so far and its checkpoint."""
    path = stored.path
    curve = path / "curve.jsonl"
    if curve.exists():
        try:
            curve_file.read(curve)
        except Damaged as damage:
            yield Finding("damage", curve, f"{damage}. {AGAIN.format(path)}")
    if "files" in stored.content:
        for name, why in run_file.differences(path, stored.content["files"]):
            kind = "missing" if why == "it is missing" else "damage"
            yield Finding(kind, path / name, f"{why}. {AGAIN.format(path)}")
    begun = _bytes(curve)
    for head in sorted((path / "checkpoint").glob("[!.]*.json")):
        if why := _slot(head, begun):
            yield Finding("damage", head, f"{why}: the run goes on from the other slot, where that is whole")
    for tensors in sorted((path / "checkpoint").glob("[!.]*.safetensors")):
        if not (head := tensors.with_suffix(".json")).exists():
            why = "it is gone, or a kill came before it: the run goes on from the other slot, where that is whole"
            yield Finding("missing", head, why)


def _bytes(path: Path) -> bytes:
    try:
        return reading.read(path, curve_file.LARGEST)
    except OSError:  # has its own finding
        return b""


def _slot(head: Path, curve: bytes) -> str:
    """What is wrong with a checkpoint's slot, "" where nothing is."""
    try:
        content = json.loads(reading.read(head, run_file.LARGEST))
        progress = json.dumps(content["progress"], sort_keys=True).encode()
        if content["progress_sha256"] != hashlib.sha256(progress).hexdigest():
            return "its progress does not have its hash"
        size, sha256 = (content["progress"].get(key) for key in ("curve_bytes", "curve_sha256"))
        if hashlib.sha256(curve[:size]).hexdigest() != sha256:
            return "curve.jsonl does not begin as it remembers"
        with reading.opened(head.with_suffix(".safetensors")) as file:
            # typeshed asks for `getbuffer`, which in-memory files alone have
            if hashlib.file_digest(file, "sha256").hexdigest() != content["sha256"]:  # type: ignore[arg-type]
                return "its tensors do not have their hash"
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return f"it cannot be read: {error!r:.80}"
    return ""
