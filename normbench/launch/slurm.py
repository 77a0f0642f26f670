"""Submits one array of workers to Slurm and returns: task i trains shard i of the plan. The same command goes on."""

from __future__ import annotations

import math
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from normbench.config.spec import Spec
from normbench.errors import BadInput
from normbench.launch import plan
from normbench.launch.base import Listener, Outcome, python


@dataclass(frozen=True)
class Slurm:
    """`workers` tasks; `grace`: the seconds before the end of `time` at which they save their runs."""

    workers: int
    partition: str = ""
    time: str = ""
    memory: str = ""
    grace: int = 60
    setup: Sequence[str] = ()
    options: Sequence[str] = ()
    here: bool = False

    @property
    def processes(self) -> int:
        return self.workers

    def launch(
        self,
        specs: Sequence[Spec],
        root: Path,
        listen: Listener = lambda spec, event: None,
        deadline: float = math.inf,
    ) -> tuple[dict[str, Outcome], bool]:
        planned = plan.write(specs, root.parent)
        tasks = min(self.workers, len(specs))
        request = {
            "job-name": f"normbench-{planned.path.name}",
            "array": f"0-{tasks - 1}",
            "partition": self.partition,
            "time": self.time,
            "mem": self.memory,
            "signal": f"B:TERM@{self.grace}",
            "output": f"{planned.path}/%A_%a.log",
            "open-mode": "append",
        }
        words = [f"--{key}={value}" for key, value in request.items() if value]
        job = _sbatch([*words, "--requeue", *self.options], self._script(planned.path, tasks))
        reason = f"submitted: job {job}, {tasks} tasks for {len(specs)} runs; {planned.path}"
        return {spec.id: Outcome("planned", reason) for spec in specs}, False

    def _script(self, path: Path, tasks: int) -> str:
        """Of each task. The worker takes the place of the shell, to which alone Slurm sends the signal."""
        worker = shlex.join(python("-m", "normbench", "worker", str(path)))
        return "\n".join(["#!/bin/bash", *self.setup, f'exec {worker} --shard "$SLURM_ARRAY_TASK_ID/{tasks}"', ""])


launcher = Slurm


def _sbatch(words: Sequence[str], script: str) -> str:
    """The number of the job. NormbenchError with the reason where Slurm refuses it."""
    try:
        done = subprocess.run(
            ["sbatch", "--parsable", *words], input=script, capture_output=True, text=True, check=True
        )
    except FileNotFoundError:
        raise BadInput(
            "launcher=slurm: there is no program sbatch here. Run this on a login node, or take launcher=pool."
        ) from None
    except subprocess.CalledProcessError as error:
        raise BadInput(f"launcher=slurm: nothing was submitted: {' '.join(error.stderr.split())}") from None
    return done.stdout.split(";")[0].strip()
