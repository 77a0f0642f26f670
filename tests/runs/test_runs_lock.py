"""The lock of a run: one process has it, whoever is killed; a dead one is taken over, a doubtful one is refused."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import child
import pytest

from normbench import slurm
from normbench.errors import NormbenchError
from normbench.runs import lock
from normbench.runs.writing import RunDirectory

ME = lock._this_process()
GONE = dataclasses.replace(ME, pid=2**22 + 1, token="a")  # above the highest number of a process


def content(process: lock.Process) -> bytes:
    return json.dumps(vars(process)).encode()


def dead(folder: Path) -> None:
    (folder / "lock").write_bytes(content(GONE))


def dead_taker(folder: Path) -> None:
    """Killed after it had got the right to replace a dead lock."""
    dead(folder)
    right = f".lock.{hashlib.sha256(content(GONE)).hexdigest()[:16]}.tmp"
    (folder / right).write_bytes(content(dataclasses.replace(GONE, token="b")))


def free(folder: Path) -> None:
    pass


LEFT = (free, dead, dead_taker)
CONTEST = """
import sys
from pathlib import Path
from normbench.errors import NormbenchError
from normbench.runs.writing import RunDirectory
print("ready", flush=True)
for folder in sys.stdin:
    try:
        with RunDirectory(Path(folder.strip())).writing():
            print("won", flush=True)
            sys.stdin.readline()
    except NormbenchError as error:
        print(f"busy {error.code}", flush=True)
        sys.stdin.readline()
    print("left", flush=True)
"""


@pytest.mark.slow
def test_of_many_that_ask_at_once_one_gets_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each holds on until all have asked, and nothing is left behind."""
    monkeypatch.setenv("PYTHONPATH", child.path())
    asking = [subprocess.Popen([sys.executable, "-c", CONTEST], stdin=-1, stdout=-1, text=True) for _ in range(4)]

    def say(text: str) -> list[str]:
        for process in asking:
            process.stdin.write(f"{text}\n")
            process.stdin.flush()
        return sorted(process.stdout.readline().strip() for process in asking)

    try:
        assert all(process.stdout.readline() == "ready\n" for process in asking)
        for number in range(60):
            folder = tmp_path / str(number)
            folder.mkdir()
            LEFT[number % 3](folder)
            assert say(str(folder)) == ["busy 5"] * 3 + ["won"]
            assert say("") == ["left"] * 4
            assert not [*folder.iterdir()]
    finally:
        for process in asking:
            process.kill()
            process.communicate()


@pytest.mark.slow
@pytest.mark.parametrize("left", LEFT)
def test_a_kill_at_any_instant_leaves_a_lock_that_is_free_or_dead(left: Callable[[Path], None], tmp_path: Path) -> None:
    """Before each step that others can see; whoever comes next gets the lock and cleans up."""

    def killed_before(step: int, folder: Path) -> bool:
        """Whether the process came to that step."""
        if (child := os.fork()) == 0:
            counted = iter(range(1000))

            def last(real: Any) -> Any:
                def call(*words: Any, **named: Any) -> Any:
                    if next(counted) == step:
                        os.kill(os.getpid(), signal.SIGKILL)
                    return real(*words, **named)

                return call

            for name in ("fsync", "link", "unlink", "rename"):
                setattr(os, name, last(getattr(os, name)))
            lock.open = last(open)  # type: ignore[attr-defined]
            lock.release(folder, lock.take(folder))
            os._exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL

    for step in range(100):
        folder = tmp_path / str(step)
        folder.mkdir()
        left(folder)
        was_killed = killed_before(step, folder)
        assert not (folder / "lock").exists() or (folder / "lock").read_bytes()
        with RunDirectory(folder).writing():
            assert lock.is_alive(folder)
        assert not [*folder.iterdir()]
        if not was_killed:
            break
    assert step >= 5  # opened, flushed, linked, its other name and then itself removed


def test_who_looked_at_a_dead_lock_before_another_replaced_it_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the other is done by then: its lock is not the one that was dead."""
    for holds_on in (True, False):
        dead(tmp_path)
        real, other = lock._is_alive, list[bytes]()

        def slow(there: bytes, recent: bool = False, real: Any = real, other: Any = other) -> bool | None:
            found = real(there)
            if not other:
                monkeypatch.setattr(lock, "_is_alive", real)
                other.append(lock.take(tmp_path))
                if not holds_on:  # noqa: B023  called within the loop
                    lock.release(tmp_path, other[0])
            return found

        monkeypatch.setattr(lock, "_is_alive", slow)
        if holds_on:
            with pytest.raises(NormbenchError):
                lock.take(tmp_path)
            assert (tmp_path / "lock").read_bytes() == other[0]
            lock.release(tmp_path, b"not its own")
            lock.release(tmp_path, other[0])
        else:
            lock.release(tmp_path, lock.take(tmp_path))
        assert not [*tmp_path.iterdir()]


HERE = {"host": "here", "boot": "b", "namespace": "n", "pid": os.getpid(), "started": ME.started}
TASK = {"host": "there", "cluster": "c", "job": "9_0", "restart": 1, "user": os.getuid()}


@pytest.mark.parametrize(
    ("other", "alive"),
    [
        (HERE, True),
        (HERE | {"pid": 2**22 + 1}, False),
        (HERE | {"started": "1"}, False),  # the number is used again
        (HERE | {"boot": "earlier"}, False),
        (HERE | {"namespace": "a container's"}, None),
        (HERE | {"host": "there", "pid": 2**22 + 1}, None),
        (TASK, None),  # another process in this job
        (TASK | {"restart": 0}, False),  # before it was requeued
        (TASK | {"job": "7_1"}, True),
        (TASK | {"job": "8_1"}, False),  # squeue does not list it any more
        (TASK | {"job": "8_1", "cluster": "another"}, None),
        (TASK | {"job": "8_1", "user": -1}, None),  # squeue may hide it
        (TASK | {"job": "8_1", "host": "here", "boot": "b", "namespace": "n", "pid": os.getpid()}, False),
        ({"of": "a later version"}, None),
    ],
)
def test_who_is_dead(
    other: dict[str, Any], alive: bool | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    me = lock.Process(**HERE, user=os.getuid(), cluster="c", job="9_0", restart=1)
    monkeypatch.setattr(lock, "_this_process", lambda: me)
    monkeypatch.setattr(lock.socket, "gethostname", lambda: "here")
    monkeypatch.setattr(slurm, "cluster", lambda: "c")
    monkeypatch.setattr(slurm, "_own_jobs", lambda moment: frozenset(["7_1", "9_0"]))
    (tmp_path / "lock").write_text(json.dumps(other))
    assert lock.is_alive(tmp_path) is alive
    if alive is False:
        lock.take(tmp_path)
        return
    with pytest.raises(NormbenchError) as refused:
        lock.take(tmp_path)
    assert refused.value.code == 5
    assert (f"delete {tmp_path / 'lock'}" in str(refused.value)) == (alive is None)


def test_where_slurm_does_not_answer_nobody_is_dead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(slurm, "cluster", lambda: "c")
    (tmp_path / "lock").write_text(json.dumps(TASK))
    assert lock.is_alive(tmp_path) is None


def test_a_full_disk_leaves_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(NormbenchError) as refused:
        lock.take(tmp_path)
    assert refused.value.code == 4 and not [*tmp_path.iterdir()]


def test_a_folder_in_its_place_is_refused_and_stays(tmp_path: Path) -> None:
    (tmp_path / "lock").mkdir()
    with pytest.raises(NormbenchError, match=str(tmp_path)):
        lock.take(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["lock"] and lock.is_alive(tmp_path) is False
