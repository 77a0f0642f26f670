"""Submits one array of workers to Slurm and returns: task i trains shard i of the plan. The same command goes on."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from normbench.errors import BadInput
from normbench.launch.base import python
from normbench.launch.plan import Plan, PlanWriter


@dataclass(frozen=True)
class Slurm(PlanWriter):
    """`workers` tasks; `grace`: the seconds before the end of `time` at which they save their runs."""

    workers: int
    partition: str = ""
    time: str = ""
    memory: str = ""
    grace: int = 60
    setup: Sequence[str] = ()
    options: Sequence[str] = ()

    @property
    def processes(self) -> int:
        return self.workers

    def start(self, plan: Plan) -> str:
        tasks = min(self.workers, len(plan.runs))
        request = {
            "job-name": f"normbench-{plan.path.name}",
            "array": f"0-{tasks - 1}",
            "partition": self.partition,
            "time": self.time,
            "mem": self.memory,
            "signal": f"B:TERM@{self.grace}",  # to the shell alone, whose place the worker takes
            "output": f"{plan.path}/%A_%a.log",
            "open-mode": "append",
        }
        words = [f"--{key}={value}" for key, value in request.items() if value]
        worker = shlex.join(python("-m", "normbench", "worker", str(plan.path)))
        script = ["#!/bin/bash", *self.setup, f'exec {worker} --shard "$SLURM_ARRAY_TASK_ID/{tasks}"', ""]
        command = ["sbatch", "--parsable", *words, "--requeue", *self.options]
        try:
            done = subprocess.run(command, input="\n".join(script), capture_output=True, text=True, check=True)
        except FileNotFoundError:
            raise BadInput(
                "launcher=slurm: there is no program sbatch here. Run this on a login node, or take launcher=pool."
            ) from None
        except subprocess.CalledProcessError as error:
            raise BadInput(f"launcher=slurm: nothing was submitted: {' '.join(error.stderr.split())}") from None
        job = done.stdout.split(";")[0].strip()
        return f"submitted: job {job}, {tasks} tasks for {len(plan.runs)} runs; {plan.path}"


launcher = Slurm
