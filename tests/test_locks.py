"""Locks: one process holds one, whoever is killed, and is named; where there are none that is said in one line."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import child
import fake
import pytest
import tiny

from normbench.commands import doctor
from normbench.errors import BadInput, Busy, Failed, NormbenchError
from normbench.files import locks
from normbench.runs import directory, files


@pytest.fixture(params=[errno.ENOLCK, errno.ENOSYS])
def no_locks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file system without locks."""

    def refuse(*words: object) -> None:
        raise OSError(request.param, os.strerror(request.param))

    monkeypatch.setattr(fcntl, "flock", refuse)
    return os.strerror(request.param)


def test_without_locks_nothing_is_written_and_one_line_says_why(tmp_path: Path, no_locks: str) -> None:
    run = directory.RunDirectory(tmp_path / "run")
    for lock in (run.writing(), files.alone(tmp_path)):
        with pytest.raises(NormbenchError, match=f"{tmp_path}.* cannot be locked: {no_locks}") as caught, lock:
            pytest.fail("it went on")
        assert "local disk" in str(caught.value)


def test_a_run_that_is_written_elsewhere_names_host_and_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = directory.RunDirectory(fake.directory(tmp_path, fake.specs(1)[0]))
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    line = rf"run {run.path.name[-12:]} is being written by process {os.getpid()} on this machine \(job 4711\) since"
    with run.writing():
        with pytest.raises(Busy, match=line):
            run.writing().__enter__()
        monkeypatch.setattr(socket, "gethostname", lambda: "another")
        here = os.uname().nodename
        with pytest.raises(Busy, match=rf"written by process \d+ on {here} \(job 4711\) since"):
            run.writing().__enter__()
    (run.path / "lock").write_text("process 1 on a host that was killed")
    with run.writing(), pytest.raises(Busy, match=rf"written by process {os.getpid()} on"):
        run.writing().__enter__()
    monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "4700")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "11")
    assert locks.batch_job() == "4700_11"


HOLDER = """
import os, sys, time
from pathlib import Path
from normbench.files import locks
with locks.held(Path(sys.argv[1])):
    if os.fork() == 0:  # as a data loader of a user's: lives on with a copy of whatever its parent has open
        sys.stdout.close()
        time.sleep(60)
        os._exit(0)
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_killed_process_leaves_nothing_that_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though one that it forked lives on."""
    monkeypatch.setenv("PYTHONPATH", child.path())
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=-1, start_new_session=True)
    try:
        assert holder.stdout.readline() == b"held\n"
        assert locks.is_held(tmp_path)
        with pytest.raises(Busy, match=f"process {holder.pid} on this machine since"):
            locks.held(tmp_path).__enter__()
        holder.kill()
        holder.wait()
        assert not locks.is_held(tmp_path)
        with locks.held(tmp_path):
            assert locks.is_held(tmp_path)
        assert (tmp_path / "lock").read_bytes() == b"" and not locks.is_held(tmp_path)
    finally:
        os.killpg(holder.pid, signal.SIGKILL)
        holder.communicate()


def test_who_asks_whether_a_run_is_written_stands_in_no_writers_way(tmp_path: Path) -> None:
    """And makes no file."""
    assert not locks.is_held(tmp_path) and not [*tmp_path.iterdir()]
    ended = threading.Event()

    def ask() -> None:
        while not ended.is_set():
            locks.is_held(tmp_path)

    asking = [threading.Thread(target=ask) for _ in range(2)]
    for thread in asking:
        thread.start()
    try:
        for _ in range(100):
            with locks.held(tmp_path):
                assert locks.is_held(tmp_path)
    finally:
        ended.set()
        for thread in asking:
            thread.join()


def test_who_waits_for_a_run_that_starts_anew_waits_for_the_new_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lock was that of the directory that has another name by now, and is free."""
    monkeypatch.setattr(locks, "PATIENCE", 60)
    first, second, entered = directory.RunDirectory(tmp_path / "run"), directory.RunDirectory(tmp_path / "run"), []

    def wait() -> None:
        with second.writing():
            entered.append(locks.is_held(second.path))

    tries = iter(range(10**9))
    real, tried = fcntl.flock, threading.Event()

    def flock(handle: int, kind: int) -> None:
        if next(tries) > 3:  # the waiting thread's
            tried.set()
        real(handle, kind)

    waiting = threading.Thread(target=wait)
    with first.writing():
        monkeypatch.setattr(fcntl, "flock", flock)
        waiting.start()
        assert tried.wait(60)
        first.start_anew()
        assert not locks.is_held(tmp_path / "run.old-1") and locks.is_held(tmp_path / "run")
        count = next(tries)
        assert tiny.wait_until(lambda: next(tries) > count + 20), "it goes on trying"
        assert not entered
    waiting.join(60)
    assert entered == [True] and not locks.is_held(tmp_path / "run")


def test_a_full_disk_and_a_folder_in_the_lock_s_place_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lock").mkdir()
    with pytest.raises(BadInput, match=f"{tmp_path} cannot be written"):
        locks.held(tmp_path).__enter__()
    assert not locks.is_held(tmp_path)

    def full(*words: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "open", full)
    with pytest.raises(Failed, match=f"{tmp_path} cannot be written: No space"):
        locks.held(tmp_path).__enter__()


CONTEST = """
import contextlib, sys
from pathlib import Path
from normbench.errors import Busy
from normbench.runs.directory import RunDirectory
print("ready", flush=True)
for folder in sys.stdin:
    run = RunDirectory(Path(folder.strip()))
    try:
        with run.writing():
            with contextlib.redirect_stdout(sys.stderr):
                run.start_anew()
            print("won", flush=True)
            sys.stdin.readline()
    except Busy:
        print("busy", flush=True)
        sys.stdin.readline()
    print("left", flush=True)
"""


@pytest.mark.slow
def test_of_many_that_ask_at_once_one_gets_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each holds on until all have asked, and starts anew."""
    monkeypatch.setenv("PYTHONPATH", child.path())
    asking = [
        subprocess.Popen([sys.executable, "-c", CONTEST], stdin=-1, stdout=-1, stderr=-3, text=True) for _ in range(4)
    ]

    def say(text: str) -> list[str]:
        for process in asking:
            process.stdin.write(f"{text}\n")
            process.stdin.flush()
        return sorted(process.stdout.readline().strip() for process in asking)

    try:
        assert all(process.stdout.readline() == "ready\n" for process in asking)
        for number in range(30):
            assert say(str(tmp_path / str(number))) == ["busy"] * 3 + ["won"]
            assert say("") == ["left"] * 4
    finally:
        for process in asking:
            process.kill()
            process.communicate()


def test_a_folder_that_is_locked_for_long_is_left_with_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LONGEST", 0)
    with files.alone(tmp_path), pytest.raises(NormbenchError, match="has been written by another process") as caught:
        files.alone(tmp_path).__enter__()
    assert caught.value.code == 5


def test_what_a_holder_says_is_short_and_one_line(tmp_path: Path) -> None:
    (tmp_path / "lock").write_bytes(b"a\nb " + b"\xff" * 10_000)
    with open(tmp_path / "lock") as file:
        text = locks.holder(file.fileno())
    assert text.startswith("a b ") and len(text) <= locks.HOLDER_BYTES
    (tmp_path / "lock").write_bytes(b"")
    with open(tmp_path / "lock") as file:
        assert locks.holder(file.fileno()) == "another process"


def lock_finding(results: Path) -> tuple[str, str]:
    return next(finding for finding in doctor._machine(results) if "locks" in finding[1])


def test_doctor_tries_locks_in_the_results_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lock_finding(tmp_path / "not" / "made")[0] == "good"
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(fcntl, "flock", lambda handle, kind: None)  # as some mounts do
    state, text = lock_finding(tmp_path)
    assert state == "bad" and "can be locked once more" in text


def test_doctor_says_where_there_are_no_locks(tmp_path: Path, no_locks: str) -> None:
    state, text = lock_finding(tmp_path)
    assert state == "bad" and no_locks in text
