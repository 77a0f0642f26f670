"""By what a change of a file or a folder shows, without reading it."""

from __future__ import annotations

import os
import time
from pathlib import Path

SETTLED = 2.0  # s: what is younger than that could change once more within the same time stamp

Stamp = tuple[int, int, int]  # inode, time of change in ns, size


def stamp(path: str | Path) -> Stamp | None:
    """By which a change of the file shows; None where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def settled(found: Stamp | None) -> bool:
    """Whether any later change will show in the stamp."""
    return found is not None and time.time_ns() - found[1] > SETTLED * 1e9
