"""`normbench worker PLAN`: trains the remaining runs of a plan, together with other workers."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from rich.console import Console

from normbench import slurm
from normbench.commands.terminal import say
from normbench.config.identity import code
from normbench.launch import worker
from normbench.launch.base import python, worker_environment
from normbench.runs import leases, plans


def run(path: Path, console: Console) -> int:
    """Exit code: 0 done, 2 a run was refused, 4 one failed, 130 stopped before."""
    plan = plans.load(path, code())
    wanted = worker_environment()
    if any(os.environ.get(key) != value for key, value in wanted.items()):  # libraries read it at process start
        os.execve(sys.executable, python("-m", "normbench", "worker", str(plan.path)), os.environ | wanted)
    job = slurm.own_job()
    who = f"{leases.host()} {f'job {job}' if job else f'process {os.getpid()}'}"

    def tell(line: str) -> None:
        say(console, f"{time.strftime('%H:%M:%S')} {who}: {line}")
        sys.stdout.flush()

    tell(f"plan {plan.name}, {len(plan.runs)} runs")
    return worker.work(plan, tell)
