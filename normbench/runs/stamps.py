"""What shows that a file changed, without reading it."""

from __future__ import annotations

import os
from pathlib import Path

Stamp = tuple[int, int, int]  # inode, time of change in ns, size


def stamp(path: str | Path) -> Stamp | None:
    """None where there is no file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
