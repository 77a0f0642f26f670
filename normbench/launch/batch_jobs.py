"""Questions to Slurm by its own commands."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable

from normbench.errors import BadInput

ASK_SECONDS, SUBMIT_SECONDS = 20.0, 120.0  # a controller under load is slow to accept a job
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
