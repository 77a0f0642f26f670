"""The lock of a run: the file `lock` in its directory says which process writes the run, on which host, for which job.

Exclusive. The file is written aside, flushed to the disk and then linked to its name. A link fails where the name is
taken, on all hosts that share the folder, so one process alone gets it; and whenever a process is killed, its lock is
whole or absent. Over NFS the answer to a link that was made can get lost: each lock has a random token, so a lock with
one's own content is one's own.

Dead or alive. There is no heartbeat; what is known of the process decides (`_is_alive`):

- of this host, boot and process namespace: the process with this number, unless it was started at another time;
- of this host before it was booted again: dead;
- of the same Slurm job, or task of an array: dead if the job has been requeued since, for Slurm ends a job before it
  starts it again;
- of another Slurm job of this user and this cluster: as long as `squeue` lists the job, asked after the lock was read;
- else nobody knows. The run is refused, and the message names the file to delete.

Taking over. Between one's look at a dead lock and one's replacing it, another process may have replaced it; its lock is
alive. So a process first makes `.lock.HASH.tmp`, named by the hash of the dead lock's content, in the same exclusive
way; it has the right to replace this content. Then it looks again, and replaces the lock, in one step (`rename`), only
if that content still lies there and is still dead. Only the process with this right removes the content, and a content
never comes back, because of its token. So two processes cannot both replace it, and at no moment is there no lock. The
right is a lock as well: if a kill left it, it is dead and is taken over in the same way. Nobody waits, so nobody can
wait in a circle.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path

from normbench import locks, slurm
from normbench.errors import Busy, NormbenchError, class_of

NAME = "lock"


@dataclass(frozen=True)
class Process:
    """The process that holds a lock, as the lock's JSON has it."""

    host: str = ""
    boot: str = ""  # id of the start of its machine
    namespace: str = ""  # in which its number counts: containers have their own
    pid: int = 0
    started: str = ""  # when it was, in ticks since the boot: numbers are used again
    user: int = -1
    since: str = ""
    token: str = ""
    cluster: str = ""
    job: str = ""
    restart: int = 0  # how often Slurm has requeued the job

    def __str__(self) -> str:
        host = "this machine" if self.host == socket.gethostname() else self.host
        return f"process {self.pid} on {host}{f' (job {self.job})' if self.job else ''} since {self.since}"


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold the lock of a run's directory. NormbenchError, code 5, if another process has it or may have it."""
    handle = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        mine = take(folder)
        try:
            yield
        finally:
            release(Path(f"/proc/self/fd/{handle}"), mine)  # the same directory, wherever it has been moved
    finally:
        os.close(handle)


def take(folder: Path) -> bytes:
    """Lock a run's directory, as `held`; returns the lock's content, for `release`."""
    mine = json.dumps(vars(_this_process())).encode()
    try:
        _make(folder / NAME, mine)
    except OSError as error:
        if error.errno in locks.NOT_HERE:
            raise locks.no_locks(folder, error) from None
        raise class_of(error)(f"{folder} cannot be written: {error.strerror}.") from None
    return mine


def release(folder: Path, mine: bytes) -> None:
    """Remove one's lock; another's stays, if somebody deleted one's own."""
    with contextlib.suppress(OSError):
        if _read(folder / NAME) == mine:
            (folder / NAME).unlink()


def is_alive(folder: Path) -> bool | None:
    """Whether a process writes this run; None if there is a lock of which nobody knows. Changes nothing."""
    with contextlib.suppress(OSError):  # no file of ours
        if (content := _read(folder / NAME)) is not None:
            return _is_alive(content, recent=True)
    return False


def _make(path: Path, mine: bytes) -> None:
    """Make `path` with this content; it is absent or dead. NormbenchError, code 5, otherwise."""
    while True:
        written = _written(path.with_name(f".{NAME}.{secrets.token_hex(8)}.tmp"), mine)
        with written as aside, contextlib.suppress(FileNotFoundError):  # a new holder has swept `aside` away
            with contextlib.suppress(FileExistsError):
                os.link(aside, path)
                return
            there = _read(path)
            if there is None:
                continue
            if there == mine:
                return
            if (alive := _is_alive(there)) is not False:
                raise _busy(path, there, alive)
            right = path.with_name(f".{NAME}.{hashlib.sha256(there).hexdigest()[:16]}.tmp")
            _make(right, mine)
            try:
                if _read(path) == there and _is_alive(there) is False:
                    aside.rename(path)
                    return
            finally:
                right.unlink(missing_ok=True)


@contextmanager
def _written(path: Path, content: bytes) -> Iterator[Path]:
    try:
        with open(path, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        yield path
    finally:
        path.unlink(missing_ok=True)


def _read(path: Path) -> bytes | None:
    """The content of a lock; None if there is none."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _process(content: bytes) -> Process | None:
    """Who holds the lock; None if it does not say so."""
    try:
        found = json.loads(content)
    except ValueError:
        return None
    known = {field.name for field in fields(Process)}
    return Process(**{k: v for k, v in found.items() if k in known}) if isinstance(found, dict) else None


def _is_alive(content: bytes, recent: bool = False) -> bool | None:
    """Whether the holder lives, None if that is unknown. `recent`: an answer of Slurm some seconds ago will do."""
    if (other := _process(content)) is None:
        return None
    me = _this_process()
    if other.host == me.host and other.boot != me.boot:
        return False
    if (other.host, other.namespace) == (me.host, me.namespace):
        return bool(_started(other.pid)) and _started(other.pid) == other.started
    if not other.job:
        return None
    if (other.cluster, other.job) == (me.cluster, me.job):
        return False if other.restart < me.restart else None
    if other.user != me.user or other.cluster != slurm.cluster():
        return None
    return slurm.is_live(other.job, recent)


def _busy(path: Path, content: bytes, alive: bool | None) -> NormbenchError:
    text = _process(content) or "another process"
    doubt = "" if alive else f" If that process has ended, delete {path}."
    return Busy(f"run {path.parent.name[-12:]} is being written by {text}.{doubt}")


def _this_process() -> Process:
    return Process(
        host=socket.gethostname(),
        boot=Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
        namespace=os.readlink("/proc/self/ns/pid"),
        pid=os.getpid(),
        started=_started(os.getpid()),
        user=os.getuid(),
        since=time.strftime("%Y-%m-%d %H:%M"),
        token=secrets.token_hex(8),
        **slurm.own_job(),
    )


def _started(pid: int) -> str:
    """When a process was started; "" if there is none, or only its exit code is left."""
    with contextlib.suppress(OSError):
        state, *others = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if state in "ZX" else others[18]
    return ""
