"""curve.jsonl of a run: one record per line, appended to while the run goes on."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from normbench import reading
from normbench.runs.damaged import Damaged, no_json
from normbench.runs.record import check_record

RECORD_DAMAGE = (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError)
LARGEST = 1 << 30  # bytes


def read(path: Path) -> list[dict[str, Any]]:
    """The records of a curve. A torn last line is not there yet; all else that is no record is damage."""
    return parse(_bytes(path), path.name)


def _bytes(path: Path) -> bytes:
    try:
        return reading.read(path, LARGEST)
    except OSError as error:
        raise Damaged(f"{path.name} cannot be read: {error.strerror}") from None


def parse(content: bytes, name: str, before: int = 0) -> list[dict[str, Any]]:
    """The records of the whole lines in `content`, which follows `before` lines. Damaged names the first bad one."""
    *lines, _ = content.split(b"\n")
    records = []
    for number, text in enumerate(lines, before + 1):
        place = f"{name} line {number} of {before + len(lines)}"
        try:
            record = reading.decode(text)
        except ValueError as error:
            raise Damaged(f"{place} is not JSON{no_json(error)}") from None
        try:
            check_record(record)
        except RECORD_DAMAGE as error:
            raise Damaged(f"{place} is not a record: {error}") from None
        records.append(record)
    return records


def _sampled(records: list[Any]) -> list[dict[str, Any]]:
    """The records of a curve that has its hash, once one of each set of keys is a record."""
    for record in {tuple(record): record for record in records}.values():
        check_record(record)
    return records


def checked(path: Path, content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The records of a curve. Without the hash that a finished run's run.json has: Damaged."""
    found = _bytes(path)
    recorded = content.get("curve_sha256")
    fits = recorded and hashlib.sha256(found).hexdigest() == recorded
    with contextlib.suppress(*RECORD_DAMAGE):
        if fits:
            return _sampled([*map(orjson.loads, found.split(b"\n")[:-1])])
    records = parse(found, path.name)  # names the bad line where there is one
    if recorded and not fits:  # none while it is on its way
        raise Damaged(f"{path.name} does not have the hash that run.json recorded")
    return records


def sha256(path: Path) -> str:
    """The fingerprint of a curve: equal for equal torch version, instruction set and threads."""
    return hashlib.sha256(reading.read(path, LARGEST)).hexdigest()
