"""Locks that end with their process: flock(2) of a file, which names its holder.

Hosts that share a folder see each other's locks if its file system passes them on. Linux's NFS client does so for
files, not for folders, and not where it is mounted with `nolock` or `local_lock`, of which nothing is noticed here. A
file system without locks is refused.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from normbench.errors import BadInput, Busy, NormbenchError, class_of

NAME = "lock"  # in a run's directory
STEP = 0.01  # seconds between two tries
PATIENCE = 0.3  # seconds for which a writer tries again: `is_held` has the lock for an instant
HOLDER_BYTES = 200  # longest text about a holder
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
JOBS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID")  # job numbers of batch systems

_held: set[int] = set()  # handles of this process


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold the lock of a run's directory, which may be renamed meanwhile. Busy while another process holds it.

    Its file stays, empty: where hosts share the folder, one could lock a file that another is about to remove.
    """
    handle = _locked(folder)
    _held.add(handle)
    try:
        sign(handle)
        yield
    finally:
        if handle in _held:  # else this is a forked child, which has no lock
            _held.remove(handle)
            with contextlib.suppress(OSError):
                os.ftruncate(handle, 0)
            os.close(handle)


def is_held(folder: Path) -> bool:
    """Whether a process holds the lock of a run's directory; changes nothing there."""
    try:
        with open(folder / NAME) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: several can ask at once
    except BlockingIOError:
        return True
    except OSError:  # no lock, or no file that this user could have written
        pass
    return False


def _locked(folder: Path) -> int:
    """A handle of the file `lock` in a folder, locked."""
    while True:
        try:
            handle = os.open(folder / NAME, os.O_RDWR | os.O_CREAT, 0o666)
        except FileNotFoundError:  # it has just been renamed
            os.makedirs(folder, exist_ok=True)
            continue
        except OSError as error:
            raise class_of(error)(f"{folder} cannot be written: {error.strerror}.") from None
        with contextlib.ExitStack() as closing:
            closing.callback(os.close, handle)
            if not take(handle, folder, PATIENCE):
                raise Busy(f"run {folder.name[-12:]} is being written by {holder(handle)}.")
            # The holder that was waited for may have renamed the folder: then it has another lock.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle), os.stat(folder / NAME)):
                    closing.pop_all()
                    return handle


def _forget() -> None:
    """In a forked child: it may outlive this process, and has no part in its locks."""
    while _held:
        os.close(_held.pop())


os.register_at_fork(after_in_child=_forget)


def take(handle: int, place: Path, wait: float) -> bool:
    """Whether the lock was acquired within so many seconds. NormbenchError where there are no locks at `place`."""
    end = time.monotonic() + wait
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= end:
                return False
            time.sleep(STEP)
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
            raise BadInput(
                f"{place} cannot be locked: {error.strerror}. Two processes could write the same files there. Choose "
                "a place on a local disk with --results or NORMBENCH_RESULTS, or mount this one with locks (normbench "
                "doctor)."
            ) from None


def sign(handle: int) -> None:
    """Write into a locked file who holds it, for others that find it locked; a full disk is ignored."""
    job = f" (job {name})" if (name := batch_job()) else ""
    holder = f"process {os.getpid()} on {socket.gethostname()}{job} since {time.strftime('%Y-%m-%d %H:%M')}"
    with contextlib.suppress(OSError):
        os.ftruncate(handle, 0)
        os.pwrite(handle, holder.encode(), 0)


def holder(handle: int) -> str:
    """The holder of a file that another process has locked, as the file names it."""
    text = ""
    with contextlib.suppress(OSError):
        text = " ".join(os.pread(handle, HOLDER_BYTES, 0).decode(errors="replace").split())
    return text.replace(f" on {socket.gethostname()}", " on this machine") or "another process"


def batch_job() -> str:
    """The job of this process in a batch system, "" outside of one.

    A task of a Slurm array is ARRAY_TASK: the last one has the array's number as its SLURM_JOB_ID, which means all.
    """
    array, task = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{task}" if array and task else next(filter(None, map(os.environ.get, JOBS)), "")


def fault(folder: Path) -> str:
    """Why locks do not work in a folder, "" where they do; tried on a temporary file."""
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".normbench-", suffix=".lock") as file:
        second = os.open(file.name, os.O_RDWR)
        try:
            if not take(file.fileno(), folder, 0):
                return "a new file is locked by somebody else"
            if take(second, folder, 0):
                return "a locked file can be locked once more"
            return ""
        except NormbenchError as error:
            return str(error)
        finally:
            os.close(second)
