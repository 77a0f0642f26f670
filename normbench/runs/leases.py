"""A plan's worker claims the run it writes by a file, too: on a shared file system a lock may hold on one node alone.

The file `claim` is made with O_EXCL, which holds on all nodes. It says whose it is: host, process, job, start; its time
of change is the heartbeat, so that only one clock counts, that of the file system. It is taken over when the process
or the job is known to be gone, else when the heartbeat is older than STALE. A worker that loses it (a node that stood
still) ends at its next heartbeat.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from normbench import reading, slurm
from normbench.errors import NormbenchError

BEAT = 20.0  # seconds
STALE = 180.0
LOST = 5  # the exit code of a worker whose claim was taken over
LARGEST = 4096  # bytes
NAME, TAKING = "claim", "claim.taking"


@dataclass(frozen=True)
class Claim:
    """What a claim says, and the time of its last heartbeat; one that is just being written says nothing yet."""

    owner: dict[str, Any]
    beat: float

    def __str__(self) -> str:
        job = f" (job {self.owner['job']})" if self.owner.get("job") else ""
        return f"process {self.owner.get('pid', '?')} on {self.owner.get('host', 'another host')}{job}"


def host() -> str:
    return socket.gethostname()


@contextmanager
def hold(folder: Path) -> Iterator[None]:
    """Claim a run while it is written. Claimed elsewhere: NormbenchError, code 5."""
    path, mine = folder / NAME, secrets.token_hex(8)
    owner = {
        "token": mine,
        "host": host(),
        "boot": _boot(),
        "pid": os.getpid(),
        "born": _born(os.getpid()),
        "job": slurm.own_job(),
        "restart": os.environ.get("SLURM_RESTART_COUNT", "0"),
        "start": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    _give_way(folder)
    try:
        _make(path, json.dumps(owner).encode())
    except FileExistsError:
        raise _busy(folder, read(folder)) from None
    ended = threading.Event()
    beating = threading.Thread(target=_beat, args=(path, mine, ended), daemon=True)
    beating.start()
    try:
        yield
    finally:
        ended.set()
        beating.join()
        if (left := read(folder)) and left.owner.get("token") == mine:
            path.unlink(missing_ok=True)


@contextmanager
def respected(folder: Path) -> Iterator[None]:
    """Write without a claim of one's own, but nothing that is claimed."""
    _give_way(folder)
    yield


def _give_way(folder: Path) -> None:
    """NormbenchError, code 5, where somebody else's claim stands; one whose owner is gone is removed."""
    found = read(folder)
    if found is None:
        return
    if not is_dead(found, _now(folder)):
        raise _busy(folder, found)
    # one at a time, or the second would remove what the first has made anew
    guard = folder / TAKING
    with contextlib.suppress(OSError):
        if _now(folder) - guard.stat().st_mtime > STALE:  # of one that was killed in between
            guard.unlink()
    try:
        _make(guard, b"")
    except FileExistsError:
        raise _busy(folder, found) from None
    try:
        now = read(folder)
        if now is not None and now.owner == found.owner:
            (folder / NAME).unlink(missing_ok=True)
    finally:
        guard.unlink(missing_ok=True)


def read(folder: Path) -> Claim | None:
    """The claim that stands there; None where there is none, or none that can be read."""
    try:
        return _read(folder)
    except OSError:
        return None


def _read(folder: Path) -> Claim:
    with reading.opened(folder / NAME) as file:
        beat, text = os.fstat(file.fileno()).st_mtime, file.read(LARGEST)
    try:
        owner = json.loads(text)
    except ValueError:
        owner = {}
    return Claim(owner if isinstance(owner, dict) else {}, beat)


def is_claimed(folder: Path) -> bool:
    """Whether a worker that seems to live writes this run, here or elsewhere."""
    found = read(folder)
    return found is not None and not is_dead(found, time.time())


def is_dead(claim: Claim, now: float) -> bool:
    """Whether the owner is known to be gone, or was not heard of for too long."""
    owner = claim.owner
    if owner.get("host") == host() and owner.get("boot") == _boot():
        return _born(owner.get("pid")) != owner.get("born")
    if (age := now - claim.beat) > STALE:
        return True
    if job := owner.get("job"):
        if job == slurm.own_job():  # of its start before this one; not of another worker in the same job
            return bool(owner.get("restart") != os.environ.get("SLURM_RESTART_COUNT", "0"))
        return age > 2 * BEAT and slurm.is_gone(str(job))
    return False


def _busy(folder: Path, claim: Claim | None) -> NormbenchError:
    return NormbenchError(f"run {folder.name[-12:]} is being written by {claim or 'another process'}.", code=5)


def _make(path: Path, content: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        try:
            if os.write(handle, content) != len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
            os.fsync(handle)
        finally:
            os.close(handle)
    except BaseException:  # an empty claim would hold others off until it is stale
        with contextlib.suppress(OSError):
            path.unlink()
        raise


def _beat(path: Path, mine: str, ended: threading.Event) -> None:
    renewed = time.monotonic()
    while not ended.wait(BEAT):
        try:
            lost = "was taken over: this process stood still too long" if _is_lost(path, mine) else ""
            if not lost:
                os.utime(path)
                renewed = time.monotonic()
        except OSError as error:  # the file system does not answer, or this process has no handle left
            if (since := time.monotonic() - renewed) < STALE:
                continue
            lost = f"could not be kept for {since:.0f} s ({error.strerror}): it may have been taken over"
        if lost:
            print(f"normbench: {path} {lost}. It ends.", file=sys.stderr)
            sys.stderr.flush()
            os._exit(LOST)  # at once: nothing may be written there any more


def _is_lost(path: Path, mine: str) -> bool:
    """Whether somebody else holds the run, or took it over and is done; OSError if that is unknown."""
    try:
        return _read(path.parent).owner.get("token") != mine
    except FileNotFoundError:
        os.stat(path.parent)  # a folder that does not answer has lost nothing
        return True


def _now(folder: Path) -> float:
    """By the clock that gives files there their times."""
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(b".")
        file.flush()
        return os.fstat(file.fileno()).st_mtime


def _boot() -> str:
    """What tells machines of one name apart, and a machine from itself before it was started anew."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


def _born(process: Any) -> str:
    """When a process of this machine was started, "" where there is none: numbers are used again."""
    with contextlib.suppress(OSError, IndexError):
        state, *fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return "" if state in "ZX" else fields[18]
    return ""
