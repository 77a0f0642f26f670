"""Queries to Slurm by its own commands: its jobs, its limits, the job of this process."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence

from normbench.errors import NormbenchError

ASK_SECONDS, SUBMIT_SECONDS = 20.0, 120.0  # a controller under load is slow to accept a job
INSTALL = "Run this where Slurm's commands are (a login node), or take launcher=pool."
FILTERS = ("SQUEUE_", "SCONTROL_", "SBATCH_WAIT")  # user settings that would hide jobs or wait for their end
_PREFIX = re.compile(r"^\w+: (?:error|fatal): ")


class Refused(NormbenchError):
    """One of Slurm's commands failed; the message is its error output."""


class Silent(Refused):
    """The command did not end in time: it may have taken effect."""


def ask(*words: str, given: str | None = None, seconds: float = ASK_SECONDS) -> str:
    """The output of a Slurm command. Refused with its error output if it fails, NormbenchError if not installed."""
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
    """The output of `sbatch`. Silent if it did not end in time, so that the job may exist or not; else as `ask`."""
    return ask("sbatch", *words, given=script, seconds=SUBMIT_SECONDS)


def own_job() -> str:
    """The job or array task of this process; "" outside of Slurm.

    A task is ARRAY_TASK: the last task of an array has the array's number as its SLURM_JOB_ID, which means all tasks.
    """
    array, task = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{task}" if array and task else os.environ.get("SLURM_JOB_ID", "")


def is_gone(job: str) -> bool:
    """Whether the job has ended; False where Slurm cannot be asked."""
    try:
        return not ask("squeue", "--noheader", f"--jobs={job}", "--format=%i").strip()
    except Refused as refusal:
        return "Invalid job id" in str(refusal)
    except NormbenchError:
        return False


def live(names: Sequence[str] = (), jobs: Sequence[str] = ()) -> dict[str, list[str]]:
    """Waiting and running jobs (or arrays) by name: those of these names or numbers. Refused if squeue fails."""
    which = f"--name={','.join(names)}" if names else f"--jobs={','.join(jobs)}"
    try:
        lines = ask("squeue", "--noheader", which, "--format=%j %F").splitlines()
    except Refused as refusal:
        if "Invalid job id" not in str(
            refusal
        ):  # squeue fails so for a single ended job; of several it omits the ended ones
            raise
        lines = []
    found: dict[str, list[str]] = {}
    for line in lines:
        name, job = line.split()
        if job not in found.setdefault(name, []):
            found[name].append(job)
    return found


def seconds(time: str) -> float | None:
    """A time limit in sbatch's format (MIN, MIN:SEC, H:MIN:SEC, DAYS-H[:MIN[:SEC]]) in seconds; None for other texts.

    seconds("2-12:30") is 217800
    """
    days, dash, rest = time.rpartition("-")
    numbers = rest.split(":")
    if not all(number.isdecimal() for number in [*numbers, *([days] if dash else [])]) or len(numbers) > 3:
        return None
    units = (3600, 60, 1) if dash or len(numbers) == 3 else (60, 1)
    return 86400 * int(days or 0) + sum(unit * int(number) for unit, number in zip(units, numbers, strict=False))


def comment(job: str) -> str:
    """The comment of a job or array task; "" if it has none or Slurm has forgotten the job."""
    try:
        found = re.search(r"^\s*Comment=(.+?)\s*$", ask("scontrol", "show", "job", job), re.MULTILINE)
    except Refused:
        return ""
    return found[1] if found and found[1] != "(null)" else ""


def largest_array() -> int:
    """How many tasks an array may have."""
    limit = re.search(r"^MaxArraySize\s*=\s*(\d+)", ask("scontrol", "show", "config"), re.MULTILINE)
    return max(1, int(limit[1])) if limit else 1
