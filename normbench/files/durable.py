"""Renames that survive a power cut."""

from __future__ import annotations

import os
from pathlib import Path


def replace(source: Path, target: Path) -> None:
    """Rename a complete file to its final name, durably."""
    os.replace(source, target)
    sync_folder(target.parent)


def sync_folder(folder: Path) -> None:
    """Make renames in `folder` survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
