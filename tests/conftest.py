"""What all tests share. This file's folder is on the path, so tests import `tiny` and `reference`."""

from __future__ import annotations

import os

import pytest

# before torch is imported: one thread, as in every run
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Two threads add numbers up in another order; a run uses one."""
    import sys

    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)
