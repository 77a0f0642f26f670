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
from normbench.runs import curve_file, seals, store
from normbench.runs.damaged import Damaged

AGAIN = "Delete {} to train this run again"


def check(stored: store.Stored, ids: Ids) -> Iterator[Finding]:
    """All findings of one run; for one that is being written only those of its status."""
    path = stored.path
    if stored.reason:
        yield Finding("damage", path, f"{stored.reason}. {AGAIN.format('it')}")
    if not stored.id or not path.is_dir() or store.is_locked(path):
        return
    yield from _configuration(stored, ids)
    if stored.reason:
        return
    if stored.status["status"] in store.FINISHED:
        yield from _finished(stored)
    else:
        yield from _unfinished(stored)


def _configuration(stored: store.Stored, ids: Ids) -> Iterator[Finding]:
    place = stored.path / "config.yaml"
    begun = any((stored.path / name).exists() for name in ("status.json", "curve.jsonl"))
    if not place.exists():
        failed_at_once = stored.state == "failed" and not (stored.path / "curve.jsonl").exists()
        if begun and not failed_at_once:
            yield Finding("missing", place, f"it is gone. {AGAIN.format(stored.path)}")
        return
    try:
        content = store.read_config(stored.path)
        labelled = content.get("id", stored.id)
        if labelled != stored.id:
            raise Damaged(f"it is of run {labelled!r:.40}")
        store.labels_of(content)
        own = ids.of(content["config"], stored.id)
    except Damaged as damage:
        yield Finding("damage", place, f"{damage}. {AGAIN.format(stored.path)}")
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
        curve_file.checked(path / "curve.jsonl", stored.status)
    except Damaged as damage:
        kind = "damage" if (path / "curve.jsonl").exists() else "missing"
        yield Finding(kind, path / "curve.jsonl", f"{damage}. {AGAIN.format(path)}")
    for name, why in seals.differences(path, stored.status["files"]):
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
    recorded = stored.status.get("files", {})
    for name, why in seals.differences(path, recorded, tuple(recorded)) if recorded else ():
        yield Finding("missing" if why == "it is missing" else "damage", path / name, f"{why}. {AGAIN.format(path)}")
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
        content = json.loads(store.read_text(head))
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
