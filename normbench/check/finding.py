"""One thing that is wrong below a results folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

HARMLESS = ("leftover", "unknown")  # reported, but no damage


@dataclass(frozen=True)
class Finding:
    """Its kind, its place, and a line with the problem and the remedy."""

    kind: str
    place: Path
    text: str

    @property
    def harmless(self) -> bool:
        return self.kind in HARMLESS
