"""Temporary folders: gone with the block; those of processes that were killed are removed by the next, no others."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import numpy as np
import pytest

from normbench.data import files
from normbench.files import scratch


def test_a_folder_is_there_for_the_block_alone(tmp_path: Path) -> None:
    with scratch.folder("x-", tmp_path) as made:
        (made / "file").write_text("1")
        assert made.parent == tmp_path and made.name.startswith("x-")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(KeyboardInterrupt), scratch.folder("x-", tmp_path):
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_what_killed_processes_left_is_collected_and_nothing_else_is(tmp_path: Path) -> None:
    stale, locked, young, other = (tmp_path / name for name in ("x-stale", "x-locked", "x-young", "y-other"))
    for folder in (stale, locked, young, other):
        folder.mkdir()
        (folder / "file").write_text("1")
    for folder in (stale, locked, other):
        os.utime(folder, (0, 0))
    (tmp_path / "x-link").symlink_to(other)
    handle = os.open(locked, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    with scratch.folder("x-", tmp_path):
        pass
    os.close(handle)
    assert {path.name for path in tmp_path.iterdir()} == {"x-locked", "x-young", "y-other", "x-link"}
    assert (other / "file").exists()


def test_the_cache_of_a_data_set_collects_what_a_killed_process_left_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def arrays() -> tuple[dict[str, np.ndarray], tuple[str, ...]]:
        return files.cached({"name": "set", "declares": {}}, [], "", lambda: {"a": np.arange(3)})

    arrays()
    (made,) = files.cache("set").iterdir()
    made.unlink()
    left = made.with_name(f".{made.name}-abc")
    left.mkdir()
    (left / made.name).write_text("half")
    os.utime(left, (0, 0))
    found, notes = arrays()
    assert notes == () and found["a"].tolist() == [0, 1, 2]
    assert list(made.parent.iterdir()) == [made]
