"""Locks: who holds one is named, with host and job; where there are none that is said in one line."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from pathlib import Path

import fake
import pytest

from normbench import locks
from normbench.commands import doctor
from normbench.data import files as data_files
from normbench.errors import NormbenchError
from normbench.runs import files, writing


@pytest.fixture(params=[errno.ENOLCK, errno.ENOSYS])
def no_locks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file system without locks, and without the links of which a run's lock is made."""

    def refuse(*words: object) -> None:
        raise OSError(request.param, os.strerror(request.param))

    monkeypatch.setattr(fcntl, "flock", refuse)
    monkeypatch.setattr(os, "link", refuse)
    return os.strerror(request.param)


def test_without_locks_nothing_is_written_and_one_line_says_why(tmp_path: Path, no_locks: str) -> None:
    run = writing.RunDirectory(tmp_path / "run")
    for lock in (run.writing(), files.alone(tmp_path), data_files.filling(tmp_path, wait=1)):
        with pytest.raises(NormbenchError, match=f"{tmp_path}.* cannot be locked: {no_locks}") as caught, lock:
            pytest.fail("it went on")
        assert "local disk" in str(caught.value)


def test_a_run_that_is_written_elsewhere_names_host_and_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = writing.RunDirectory(fake.directory(tmp_path, fake.specs(1)[0]))
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    with run.writing():
        with pytest.raises(
            NormbenchError, match=r"written by process \d+ on this machine \(job 4711\) since"
        ) as caught:
            run.writing().__enter__()
        assert caught.value.code == 5
        monkeypatch.setattr(socket, "gethostname", lambda: "another")
        here = os.uname().nodename
        with pytest.raises(NormbenchError, match=rf"written by process \d+ on {here} \(job 4711\) since"):
            run.writing().__enter__()


def test_a_folder_that_is_locked_for_long_is_left_with_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LONGEST", 0)
    with files.alone(tmp_path), pytest.raises(NormbenchError, match="has been written by another process") as caught:
        files.alone(tmp_path).__enter__()
    assert caught.value.code == 5
    with (
        data_files.filling(tmp_path, wait=0),
        pytest.raises(NormbenchError, match=r"filled by process \d+ on this machine") as caught,
    ):
        data_files.filling(tmp_path, wait=0).__enter__()
    assert caught.value.code == 5


def test_who_waits_for_a_folder_is_reported_for_whom(tmp_path: Path) -> None:
    lines: list[str] = []
    with data_files.filling(tmp_path, wait=1, waiting=lines.append), pytest.raises(NormbenchError, match="filled by"):
        assert lines == []
        data_files.filling(tmp_path, wait=0.03, waiting=lines.append).__enter__()
    assert len(lines) == 1 and f"{tmp_path} is being filled by process {os.getpid()} on this machine" in lines[0]


def test_what_a_holder_says_is_short_and_one_line(tmp_path: Path) -> None:
    (tmp_path / "lock").write_bytes(b"a\nb " + b"\xff" * 10_000)
    with open(tmp_path / "lock") as file:
        text = locks.holder(file.fileno())
    assert text.startswith("a b ") and len(text) <= locks.HOLDER_BYTES
    (tmp_path / "lock").write_bytes(b"")
    with open(tmp_path / "lock") as file:
        assert locks.holder(file.fileno()) == "another process"


def lock_finding(results: Path) -> doctor.Finding:
    return next(finding for finding in doctor._disk(results) if "locked" in finding.text)


def test_doctor_tries_locks_in_the_results_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = lock_finding(tmp_path / "not" / "made")
    assert (found.state, found.text) == ("good", f"files in {tmp_path} can be locked")
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(fcntl, "flock", lambda handle, kind: None)  # as some mounts do
    found = lock_finding(tmp_path)
    assert found.state == "bad" and "can be locked once more" in found.text


def test_doctor_says_where_there_are_no_locks(tmp_path: Path, no_locks: str) -> None:
    found = lock_finding(tmp_path)
    assert found.state == "bad" and no_locks in found.text
