"""`normbench worker PLAN`: trains the remaining runs of a plan, together with other workers."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Annotated

from normbench import slurm
from normbench.commands.options import ConfigDir, Results, argument
from normbench.commands.terminal import console, say
from normbench.config.identity import code
from normbench.launch import worker
from normbench.launch.base import python, worker_environment
from normbench.reading import place
from normbench.runs import leases, plans

EPILOG = """examples:
  normbench train -m model=mnist_mlp norm=none,layer 'seed=range(1,6)' launcher=plan   write the plan, print its folder
  seq 4 | xargs -P 4 -I{} normbench worker results/plans/1a2b3c4d5e6f                   four workers, here
  parallel -j 4 normbench worker {} ::: $(yes results/plans/1a2b3c4d5e6f | head -4)     the same
  ssh node2 'cd project && normbench worker results/plans/1a2b3c4d5e6f'                 one more, elsewhere

A worker takes one free run after another, trains it, and ends when none is left. All nodes must share the results
folder. On SIGTERM it saves its run; another worker takes over the run of a killed one.

exit codes: 0 done; 2 another version, other code, no such plan, or a run that cannot be trained here; 4 a run failed;
            130 stopped with runs left
"""


def command(
    path: Annotated[Path, argument("a plan's folder, RESULTS/plans/NAME", "plan", parser=place)],
    results: Results,
    config_dir: ConfigDir = None,
) -> int:
    """Exit code: 0 done, 2 a run was refused, 4 one failed, 130 stopped before."""
    plan = plans.load(path, code())
    wanted = worker_environment()
    if any(os.environ.get(key) != value for key, value in wanted.items()):  # libraries read it at process start
        os.execve(sys.executable, python("-m", "normbench", "worker", str(plan.path)), os.environ | wanted)
    job = slurm.own_job()
    who = f"{leases.host()} {f'job {job}' if job else f'process {os.getpid()}'}"

    printed = console()

    def tell(line: str) -> None:
        say(printed, f"{time.strftime('%H:%M:%S')} {who}: {line}")
        sys.stdout.flush()

    tell(f"plan {plan.name}, {len(plan.runs)} runs")
    return worker.work(plan, tell)
