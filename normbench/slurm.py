"""What Slurm says, by its own commands: of jobs that are there, of its limits, of the job that this process is in."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence

from normbench.errors import NormbenchError

ASK_SECONDS = 20.0
INSTALL = "Run this where Slurm's commands are (a login node), or take launcher=pool."
_PREFIX = re.compile(r"^\w+: (?:error|fatal): ")


class Refused(NormbenchError):
    """One of Slurm's commands failed; the message is what it said."""


def ask(*words: str, given: str | None = None) -> str:
    """What a command of Slurm's prints. Refused with its last words, NormbenchError where there is no such program."""
    if shutil.which(words[0]) is None:
        raise NormbenchError(f"launcher=slurm: there is no program {words[0]} here. {INSTALL}")
    try:
        asked = subprocess.run(
            words, input=given, capture_output=True, text=True, timeout=ASK_SECONDS, check=False, errors="replace"
        )
    except subprocess.TimeoutExpired:
        raise Refused(f"{words[0]} gave no answer within {ASK_SECONDS:.0f} s") from None
    if asked.returncode:
        said = [_PREFIX.sub("", line.strip()) for line in asked.stderr.splitlines() if line.strip()]
        raise Refused("; ".join(said) or f"{words[0]} ended with exit code {asked.returncode}")
    return asked.stdout


def own_job() -> str:
    """The job, or the task of an array, that this process is in; "" outside of Slurm.

    A task goes by its array: the last task of an array has the array's own number as its SLURM_JOB_ID, and who names
    that means all of them.
    """
    array, task = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{task}" if array and task else os.environ.get("SLURM_JOB_ID", "")


def is_gone(job: str) -> bool:
    """Whether Slurm knows that this job has ended; False where it cannot be asked."""
    try:
        return not ask("squeue", "--noheader", f"--jobs={job}", "--format=%i").strip()
    except Refused as refusal:
        return "Invalid job id" in str(refusal)
    except NormbenchError:
        return False


def live(names: Sequence[str]) -> dict[str, list[str]]:
    """Jobs (or arrays) that wait or run, by these job names. Refused where Slurm gives no answer."""
    found: dict[str, list[str]] = {}
    for line in ask("squeue", "--noheader", f"--name={','.join(names)}", "--format=%j %F").splitlines():
        name, job = line.split()
        if job not in found.setdefault(name, []):
            found[name].append(job)
    return found


def comment(job: str) -> str:
    """What a job, or a task of an array, left as its comment, "" where Slurm has forgotten it."""
    try:
        found = re.search(r"^\s*Comment=(.+?)\s*$", ask("scontrol", "show", "job", job), re.MULTILINE)
    except Refused:
        return ""
    return found[1] if found and found[1] != "(null)" else ""


def largest_array() -> int:
    """How many tasks an array may have."""
    limit = re.search(r"^MaxArraySize\s*=\s*(\d+)", ask("scontrol", "show", "config"), re.MULTILINE)
    return max(1, int(limit[1])) if limit else 1
