"""One thing that is wrong below a results folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

KINDS = {  # and what each means
    "damage": "a file is not what was written, or cannot be read",
    "missing": "a file that belongs there is gone",
    "id": "a run's configuration gives another id than the one it is filed under",
    "verdict": "verdicts, tables or histories do not follow from what is beside them",
    "permission": "a file may not be read by its owner, or a folder not listed",
    "leftover": "a command that was killed left it; nothing reads it",
    "unsealed": "it was written before there were hashes: nobody can say whether it was changed",
    "unknown": "this version, or this machine, cannot tell",
    "writable": "anybody on this machine may change it",
}
HARMLESS = ("leftover", "unsealed", "unknown", "writable")  # said, but no damage


@dataclass(frozen=True)
class Finding:
    """Its kind, its place, and a line that says what is wrong and the way out."""

    kind: str
    place: Path
    text: str

    @property
    def harmless(self) -> bool:
        return self.kind in HARMLESS
