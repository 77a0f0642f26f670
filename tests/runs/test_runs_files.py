"""Files that are whole or absent, whatever fails in between; and a disk that is full."""

from __future__ import annotations

import builtins
import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
import tiny

from normbench.errors import NormbenchError
from normbench.runs import directory, files

STEPS = ("open", "fsync", "replace", "fsync of the folder")


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt(), MemoryError()]
)
def test_a_failed_write_leaves_the_old_content_or_the_new(
    step: str, error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(b"old")
    calls = {"fsync": 0}
    real_fsync = os.fsync

    def fail(*arguments: Any, **keywords: Any) -> Any:
        raise error

    def fsync(handle: int) -> None:
        calls["fsync"] += 1
        if calls["fsync"] == (1 if step == "fsync" else 2):
            raise error
        real_fsync(handle)

    if step == "open":
        monkeypatch.setattr(builtins, "open", fail)
    elif step == "replace":
        monkeypatch.setattr(files.os, "replace", fail)
    else:
        monkeypatch.setattr(files.os, "fsync", fsync)
    with pytest.raises(type(error)):
        files.atomic_write(path, b"new content")
    monkeypatch.undo()
    assert path.read_bytes() == (b"new content" if step == "fsync of the folder" else b"old")
    assert [p.name for p in tmp_path.iterdir()] == ["run.json"], "nothing half-written stays"


def test_content_reaches_the_disk_before_its_name_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a power cut leaves: the order is content, name, folder, or the name may point at nothing."""
    log: list[str] = []
    real_fsync, real_replace = os.fsync, os.replace

    def fsync(handle: int) -> None:
        log.append("folder" if os.path.isdir(f"/proc/self/fd/{handle}") else "content")
        real_fsync(handle)

    def replace(source: Any, target: Any) -> None:
        log.append(f"rename to {Path(target).name}")
        real_replace(source, target)

    monkeypatch.setattr(files.os, "fsync", fsync)
    monkeypatch.setattr(files.os, "replace", replace)
    files.atomic_write(tmp_path / "x", b"1")
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("needs /proc to tell a folder's handle from a file's")
    assert log == ["content", "rename to x", "folder"]


def test_a_checkpoint_never_promises_a_curve_that_is_not_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from normbench.train import checkpoint

    log: list[str] = []
    real_fsync, real_write = os.fsync, checkpoint.write

    def fsync(handle: int) -> None:
        log.append(Path(os.readlink(f"/proc/self/fd/{handle}")).name)
        real_fsync(handle)

    def write(run: Path, progress: Any, tensors: Any) -> None:
        assert log[-1] == "curve.jsonl"
        assert progress["curve_bytes"] == (run / "curve.jsonl").stat().st_size
        log.append("saved")
        real_write(run, progress, tensors)

    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("needs /proc to tell which file is flushed")
    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(checkpoint, "write", write)
    assert tiny.train(tmp_path / "run", "train.checkpoint_seconds=0", "train.epochs=1") == "done"
    assert log.count("saved") == 6


def test_what_a_killed_writer_left_is_cleared_by_the_next(tmp_path: Path) -> None:
    run = tmp_path / "run"
    tiny.train(run, stopping=tiny.after(2))
    for name in (".run.json.99.tmp", "checkpoint/.state.99.tmp"):
        (run / name).write_text("half")
    assert tiny.train(run) == "done"
    assert not [path for path in run.rglob("*") if path.name.endswith(".tmp")] and not (run / "checkpoint").exists()


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NormbenchError, match=r"cannot be made: .*NORMBENCH_RESULTS"):
        files.make_folder(tmp_path / "file" / "runs")
    with (
        pytest.raises(NormbenchError, match="cannot be made"),
        directory.RunDirectory(tmp_path / "file" / "run").writing(),
    ):
        pass


def test_another_error_of_the_system_is_no_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(path: Path, value: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(directory, "write_json", broken)
    with pytest.raises(OSError, match="Input/output error"):
        tiny.train(tmp_path / "run")


def test_the_status_says_disk_full_where_it_still_can(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from normbench.train import checkpoint

    def full(*arguments: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "write", full)
        with pytest.raises(NormbenchError) as caught:
            tiny.train(tmp_path / "run", "train.checkpoint_seconds=0")
    assert caught.value.code == 4 and "disk full: No space left on device" in str(caught.value)
    found = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (found["status"], found["reason"]) == ("interrupted", "disk full: No space left on device")
    assert tiny.train(tmp_path / "run") == "done"


def test_a_folder_that_is_moved_while_its_run_is_written_goes_on_where_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from normbench.train import checkpoint

    write = checkpoint.write

    def moved(*arguments: Any) -> None:
        write(*arguments)
        (tmp_path / "run").rename(tmp_path / "other")

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "write", moved)
        with pytest.raises(NormbenchError, match=r"run was moved or deleted while it was written. Where it") as caught:
            tiny.train(tmp_path / "run", "train.checkpoint_seconds=0")
    assert caught.value.code == 4 and not (tmp_path / "run").exists()
    assert tiny.train(tmp_path / "other") == "done"
    assert tiny.train(tmp_path / "undisturbed") == "done"
    assert (tmp_path / "other/curve.jsonl").read_bytes() == (tmp_path / "undisturbed/curve.jsonl").read_bytes()
