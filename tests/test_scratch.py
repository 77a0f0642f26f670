"""Temporary folders: gone with the block; those of processes that were killed are removed by the next, no others."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from normbench import scratch
from normbench.data import array_cache


def dead() -> int:
    """The number of a process that is gone."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_folder_is_there_for_the_block_alone(tmp_path: Path) -> None:
    with scratch.folder("x-", tmp_path) as made:
        (made / "file").write_text("1")
        assert made.parent == tmp_path and made.name.startswith(f"x-{os.getpid()}-")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(KeyboardInterrupt), scratch.folder("x-", tmp_path):
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_what_killed_processes_left_is_collected_and_nothing_else_is(tmp_path: Path) -> None:
    gone = dead()
    stale, held = tmp_path / f"x-{gone}-abc", tmp_path / f"x-{gone}-def"
    young, recycled = tmp_path / f"x-{os.getpid()}-abc", tmp_path / f"x-{os.getppid()}-abc"
    others = [tmp_path / name for name in (f"y-{gone}-abc", "x-abc", f"x-{gone}", "x-")]
    for folder in (stale, held, young, recycled, *others):
        folder.mkdir()
        (folder / "file").write_text("1")
    os.utime(recycled, (0, 0))
    link = tmp_path / f"x-{gone}-link"
    link.symlink_to(others[0])
    handle = os.open(held, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    with scratch.folder("x-", tmp_path):
        pass
    os.close(handle)
    assert sorted(tmp_path.iterdir()) == sorted([held, young, *others, link])
    assert (others[0] / "file").exists()


def test_an_array_cache_collects_what_a_killed_process_left_beside_it(tmp_path: Path) -> None:
    left = tmp_path / f".a.npz-{dead()}-abc"
    left.mkdir()
    (left / "a.npz").write_text("half")
    made, notes = array_cache.arrays(tmp_path / "a.npz", lambda: {"a": np.arange(3)}, "")
    assert notes == () and made["a"].tolist() == [0, 1, 2]
    assert [path.name for path in tmp_path.iterdir()] == ["a.npz"]
