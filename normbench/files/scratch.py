"""Temporary folders: those that killed processes left behind are removed by the next process.

A process locks its folder while it uses it.
"""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from normbench.errors import NormbenchError
from normbench.files import locks

YOUNG = 10.0  # s: a younger folder may not be locked yet


@contextlib.contextmanager
def folder(prefix: str, within: Path | None = None) -> Iterator[Path]:
    """A new folder in `within` (default: the temporary folder), removed after the block. OSError as mkdtemp."""
    base = within or Path(tempfile.gettempdir())
    collect(prefix, base)
    made = Path(tempfile.mkdtemp(prefix=prefix, dir=base))
    handle = os.open(made, os.O_RDONLY)
    try:
        with contextlib.suppress(NormbenchError):  # where there are no locks, nothing is collected either
            locks.take(handle, made, 0)
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
        os.close(handle)


def collect(prefix: str, base: Path) -> None:
    """Remove folders that this user's dead processes left; errors are ignored."""
    for path in base.glob(f"{glob.escape(prefix)}*"):
        with contextlib.suppress(OSError, NormbenchError):
            _remove(path)


def _remove(path: Path) -> None:
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or time.time() - status.st_mtime < YOUNG:
        return
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        if locks.take(handle, path, 0):
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(handle)
