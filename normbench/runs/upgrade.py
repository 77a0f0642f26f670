"""Runs of form 1 in form 2, for those who read them: after the old hash was checked, before anything else sees them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from normbench.runs.record import curve_sha256


def records(old: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The records of a curve of form 1 in form 2; they are the same. Not of form 1: ValueError, KeyError, TypeError."""
    return [dict(record) for record in old]


def was(old: str, new: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What a run keeps of `old`, its curve's hash in form 1: nothing where the records, now `new`, have it still."""
    return {} if curve_sha256(new) == old else {"schema": 1, "curve_sha256": old}


def run(old: Mapping[str, Any]) -> dict[str, Any]:
    """A run as a line of a pack of form 1 has it, as in form 2; such a line has no hash to check."""
    new = records(old["records"])
    return {**old, "records": new, "was": was(curve_sha256(old["records"]), new)}
