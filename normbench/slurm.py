"""What Slurm says, by its own commands: of jobs that are there, of its limits, of the job that this process is in."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence

from normbench.errors import NormbenchError

ASK_SECONDS, SUBMIT_SECONDS = 20.0, 120.0  # a controller under load takes its time to take a job
INSTALL = "Run this where Slurm's commands are (a login node), or take launcher=pool."
FILTERS = ("SQUEUE_", "SCONTROL_", "SBATCH_WAIT")  # a user's habits, which would hide jobs or wait for their end
_PREFIX = re.compile(r"^\w+: (?:error|fatal): ")


class Refused(NormbenchError):
    """One of Slurm's commands failed; the message is what it said."""


class Silent(Refused):
    """It did not end in time: what was asked for may have happened."""


def ask(*words: str, given: str | None = None, seconds: float = ASK_SECONDS) -> str:
    """What a command of Slurm's prints. Refused with its last words, NormbenchError where there is no such program."""
    if shutil.which(words[0]) is None:
        raise NormbenchError(f"launcher=slurm: there is no program {words[0]} here. {INSTALL}")
    try:
        asked = subprocess.run(
            words,
            input=given,
            env={key: value for key, value in os.environ.items() if not key.startswith(FILTERS)},
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            errors="replace",
        )
    except subprocess.TimeoutExpired:
        raise Silent(f"{words[0]} gave no answer within {seconds:.0f} s") from None
    if asked.returncode:
        lines = [_PREFIX.sub("", line.strip()) for line in asked.stderr.splitlines() if line.strip()]
        raise Refused("; ".join(lines) or f"{words[0]} ended with exit code {asked.returncode}")
    return asked.stdout


def submit(*words: str, script: str) -> str:
    """What `sbatch` prints. Silent where the job may be there or not, else as `ask`."""
    return ask("sbatch", *words, given=script, seconds=SUBMIT_SECONDS)


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


def live(names: Sequence[str] = (), jobs: Sequence[str] = ()) -> dict[str, list[str]]:
    """Jobs (or arrays) that wait or run, by name: those called so, or those of these numbers.

    Refused where Slurm gives no answer.
    """
    which = f"--name={','.join(names)}" if names else f"--jobs={','.join(jobs)}"
    try:
        lines = ask("squeue", "--noheader", which, "--format=%j %F").splitlines()
    except Refused as refusal:
        if "Invalid job id" not in str(refusal):  # what it says of one number, of several it leaves out the ended
            raise
        lines = []
    found: dict[str, list[str]] = {}
    for line in lines:
        name, job = line.split()
        if job not in found.setdefault(name, []):
            found[name].append(job)
    return found


def seconds(time: str) -> float | None:
    """How long a limit is that is written as sbatch takes it: MIN, MIN:SEC, H:MIN:SEC, DAYS-H[:MIN[:SEC]]; else None.

    seconds("2-12:30") is 217800
    """
    days, dash, rest = time.rpartition("-")
    numbers = rest.split(":")
    if not all(number.isdecimal() for number in [*numbers, *([days] if dash else [])]) or len(numbers) > 3:
        return None
    units = (3600, 60, 1) if dash or len(numbers) == 3 else (60, 1)
    return 86400 * int(days or 0) + sum(unit * int(number) for unit, number in zip(units, numbers, strict=False))


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
