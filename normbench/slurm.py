"""Questions to Slurm by its own commands: its jobs, the job of this process."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterable
from typing import Any

from normbench.errors import BadInput, NormbenchError

ASK_SECONDS, SUBMIT_SECONDS = 20.0, 120.0  # a controller under load is slow to accept a job
RECENT = 5.0  # seconds for which a list of jobs may be used again
INSTALL = "Run this where Slurm's commands are (a login node), or take launcher=pool."
FILTERS = ("SQUEUE_", "SCONTROL_", "SBATCH_WAIT")  # user settings that would hide jobs or wait for their end
_PREFIX = re.compile(r"^\w+: (?:error|fatal): ")


class Silent(BadInput):
    """The command did not end in time: it may have taken effect."""


def ask(*words: str, given: str | None = None, seconds: float = ASK_SECONDS) -> str:
    """The output of a Slurm command. NormbenchError with its error output if it fails or is not installed."""
    if shutil.which(words[0]) is None:
        raise BadInput(f"there is no program {words[0]} here. {INSTALL}")
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
        raise BadInput("; ".join(lines) or f"{words[0]} ended with exit code {asked.returncode}")
    return asked.stdout


def own_job() -> dict[str, Any]:
    """The job of this process, its cluster, and how often it was requeued; empty outside of Slurm.

    A task is ARRAY_TASK: the last task of an array has the array's number as its SLURM_JOB_ID, which means all tasks.
    """
    if not (job := os.environ.get("SLURM_JOB_ID")):
        return {}
    array, task = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    return {
        "job": f"{array}_{task}" if array and task else job,
        "cluster": cluster(),
        "restart": int(os.environ.get("SLURM_RESTART_COUNT", 0)),
    }


@functools.cache
def cluster() -> str:
    """The name of this cluster; "" where Slurm cannot be asked."""
    try:
        name = os.environ.get("SLURM_CLUSTER_NAME")
        found = name or re.search(r"^ClusterName\s*=\s*(\S+)", ask("scontrol", "show", "config"), re.MULTILINE)
    except NormbenchError:
        return ""
    return found if isinstance(found, str) else found[1] if found else ""


def is_live(job: str, recent: bool) -> bool | None:
    """Whether this user's job, or task of an array, waits or runs; None where Slurm cannot be asked.

    recent: an answer that is some seconds old will do.
    """
    try:
        return job in _own_jobs(time.monotonic() // RECENT if recent else time.monotonic())
    except NormbenchError:
        return None


@functools.lru_cache(maxsize=1)
def _own_jobs(moment: float) -> frozenset[str]:
    """`moment`: an answer for the same moment is used again."""
    return frozenset(ask("squeue", "--me", "--noheader", "--array", "--format=%i").split())


def live_tasks(names: Iterable[str]) -> dict[str, dict[int, str]]:
    """The waiting and running tasks of the arrays with these names: by name, each task's number and its array's."""
    found: dict[str, dict[int, str]] = {}
    if names := ",".join(names):
        for line in ask("squeue", "--noheader", "--array", f"--name={names}", "--format=%j %K %F").splitlines():
            name, task, array = line.split()
            found.setdefault(name, {})[int(task)] = array
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
