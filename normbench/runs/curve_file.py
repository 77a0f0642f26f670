"""curve.jsonl of a run: one record per line, appended to while the run goes on."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from normbench import reading
from normbench.runs.curve import Curve
from normbench.runs.damaged import Damaged, why
from normbench.runs.record import check_record


def read(path: Path) -> Curve:
    """The records of a curve. A torn last line is not there yet; all else that is no record is damage."""
    return _each(_bytes(path), path.name)


def checked(path: Path, content: Mapping[str, Any]) -> Curve:
    """The records of a curve. Without the hash that a finished run's run.json has: Damaged."""
    found = _bytes(path)
    recorded = content.get("curve_sha256")
    if not recorded:  # it is on its way
        return _each(found, path.name)
    if hashlib.sha256(found).hexdigest() != recorded:
        raise Damaged(f"{path.name} does not have the hash that run.json recorded")
    return Curve(reading.decode(b"[" + b",".join(found.splitlines()) + b"]"))  # as they were written


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Damaged(f"{path.name} cannot be read: {why(error)}") from None


def _each(content: bytes, name: str) -> Curve:
    """The records of the whole lines. Damaged names the first bad one."""
    *lines, _ = content.split(b"\n")
    records: list[dict[str, Any]] = []
    for number, line in enumerate(lines, 1):
        try:
            records.append(reading.decode(line))
            check_record(records[-1])
        except (ValueError, TypeError, RecursionError) as error:
            raise Damaged(f"{name} line {number} of {len(lines)} is not a record: {error}") from None
    return Curve(records)
