"""Processes that a test starts: they find the package and the tests' helpers as this one does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def path() -> str:
    """Their PYTHONPATH."""
    return os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, sys.path)])


def run(*words: str) -> str:
    """What Python with these words writes to standard output."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": path()}
    # what it leaves behind may hold its output open: a failed test is better than one that never ends
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, env=environment, timeout=1200)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
