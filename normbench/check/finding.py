"""One thing that is wrong below a results folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

HARMLESS = ("leftover", "unknown", "writable")  # said, but no damage


@dataclass(frozen=True)
class Finding:
    """Its kind, its place, and a line that says what is wrong and the way out."""

    kind: str
    place: Path
    text: str

    @property
    def harmless(self) -> bool:
        return self.kind in HARMLESS
