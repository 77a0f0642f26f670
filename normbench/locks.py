"""Locks that end with their process: flock(2); the locked file names its holder."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import tempfile
import time
from pathlib import Path

from normbench.errors import BadInput, NormbenchError

STEP = 0.01  # seconds between two tries
HOLDER_BYTES = 200  # longest text about a holder
# errors of file systems without locks, lock service or hard links
NOT_HERE = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EMLINK)
JOBS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID")  # job numbers of batch systems


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
            if error.errno not in NOT_HERE:
                raise
            raise no_locks(place, error) from None


def no_locks(place: Path, error: OSError) -> NormbenchError:
    """What to say where a file system has no locks, or no links to make them."""
    return BadInput(
        f"{place} cannot be locked: {error.strerror}. Two processes could write the same files there. Choose a "
        "place on a local disk with --results or NORMBENCH_RESULTS, or mount this one with locks (normbench doctor)."
    )


def sign(handle: int) -> None:
    """Write into a locked file who holds it, for others that find it locked; a full disk is ignored."""
    job = next((f" (job {os.environ[name]})" for name in JOBS if os.environ.get(name)), "")
    holder = f"process {os.getpid()} on {socket.gethostname()}{job} since {time.strftime('%H:%M')}"
    with contextlib.suppress(OSError):
        os.ftruncate(handle, 0)
        os.pwrite(handle, holder.encode(), 0)


def holder(handle: int) -> str:
    """The holder of a file that another process has locked, as the file names it."""
    text = ""
    with contextlib.suppress(OSError):
        text = " ".join(os.pread(handle, HOLDER_BYTES, 0).decode(errors="replace").split())
    return text.replace(f" on {socket.gethostname()}", " on this machine") or "another process"


def fault(folder: Path) -> str:
    """Why locks do not work in a folder, "" where they do; tried on a temporary file."""
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".normbench-", suffix=".lock") as file:
        second = os.open(file.name, os.O_RDWR)
        try:
            if not take(file.fileno(), folder, 0):
                return "a new file is locked by somebody else"
            if take(second, folder, 0):
                return "a locked file can be locked once more"
            os.link(file.name, f"{file.name}.link")
            os.unlink(f"{file.name}.link")
            return ""
        except NormbenchError as error:
            return str(error)
        except OSError as error:
            return f"a file cannot have a second name: {error.strerror}"
        finally:
            os.close(second)
