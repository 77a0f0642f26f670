"""Submits an array of workers to Slurm, and leaves: each worker claims runs of one plan.

Plain `sbatch`: submitit would pickle the call (a stored pickle runs only with the code and the Python that wrote it),
wants one job a run where a worker trains many, and warns of an unknown state wherever there is no slurmdbd. All that is
needed is a script of a few lines, and what `squeue` says.

    sbatch:  array of min(workers, runs, MaxArraySize) tasks, named by plan and results folder: so it is found again
    a task:  normbench worker PLAN; told to stop with runs left, or killed, it puts itself back into the queue
"""

from __future__ import annotations

import hashlib
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from normbench import slurm
from normbench.config.identity import RunSpec
from normbench.errors import NormbenchError
from normbench.launch.base import Launcher, Listener, Outcome
from normbench.launch.claiming import STOPPED
from normbench.launch.queue import queued
from normbench.runs import files, plans
from normbench.runs.plans import Plan

RESTARTS = 5  # of a task that was killed, by whatever: memory that does not suffice would kill it for ever
ENDED, KILLED = 143, 137  # a shell's codes for SIGTERM and SIGKILL

# A task is requeued by its array and its number: SLURM_JOB_ID of the last task is that of the whole array. Only while
# it is RUNNING: one that was cancelled stays so, and of one that somebody else requeues the own requeue would fail.
SCRIPT = """\
#!/bin/bash
plan={plan}
if [ ! -r "$plan/plan.json" ]; then
    said="normbench: $plan is not seen on $(hostname): the results folder must be one that all nodes share"
    echo "$said" >&2
    scontrol update "JobId=${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID" "Comment=$said"
    exit 2
fi
exec >>"$plan/${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID.log" 2>&1
trap 'echo "normbench: setup line failed with code $?: $BASH_COMMAND"' ERR
{setup}
trap - ERR
{worker} &
worker=$!
trap 'kill -TERM $worker' TERM
wait $worker
code=$?
while kill -0 $worker 2>/dev/null; do  # a signal ends `wait` before the worker has saved
    wait $worker
    code=$?
done
wait $worker  # once more: one that ended while the trap ran has left its own code
code=$?
trap '' TERM
task="${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID"
again=
case $code in
    {stopped} | {ended}) again=1 ;; # the second: told to stop while Python was starting
    {killed}) [ "${{SLURM_RESTART_COUNT:-0}}" -ge {restarts} ] || again=1 ;;
esac
if [ -n "$again" ]; then
    state=$(squeue --noheader --jobs="$task" --format=%T)
    if [ "$state" = RUNNING ]; then
        echo "normbench: $task goes back into the queue"
        scontrol requeue "$task"
    fi
fi
exit $code
"""


def launcher(
    workers: int, partition: str, time: str, memory: str, grace: int, setup: list[str], options: list[str]
) -> Launcher:
    return Slurm(workers, partition, time, memory, grace, tuple(setup), tuple(options))


@dataclass(frozen=True)
class Slurm:
    """Submits runs; those that wait already, in whatever plan, are not submitted again."""

    workers: int
    partition: str = ""
    time: str = ""
    memory: str = ""
    grace: int = 60
    setup: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    here: bool = False

    @property
    def processes(self) -> int:
        return self.workers

    def launch(
        self,
        specs: Sequence[RunSpec],
        root: Path,
        listen: Listener = lambda spec, event: None,
        deadline: float | None = None,
    ) -> tuple[dict[str, Outcome], bool]:
        results = root.parent
        try:
            largest = slurm.largest_array()  # before anything is written: is there a Slurm?
        except slurm.Refused as refusal:
            raise NormbenchError(f"launcher=slurm: Slurm does not answer: {refusal}. Nothing was submitted.") from None
        with files.alone(results / plans.FOLDER):  # a second command waits, and sees what the first has submitted
            waiting, notes = queued(results)
            if notes:
                raise NormbenchError(f"launcher=slurm: {notes[0]} Nothing was submitted.")
            _forget_ended(results)
            there = Outcome("queued", "queued already: nothing is submitted for them")
            outcomes = {spec.id: there for spec in specs if spec.id in waiting}
            fresh = [spec for spec in specs if spec.id not in waiting]
            if fresh:
                plan = plans.write(fresh, results)
                tasks = min(self.workers, len(fresh), largest)
                name = job_name(plan.path)
                own = slurm.live([name]).get(name)  # of a command killed before it noted it
                job = own[0] if own else self._submit(plan, tasks)
                plans.note_jobs(plan, "slurm", [job])
                fewer = f" (MaxArraySize of this Slurm: {largest})" if tasks < min(self.workers, len(fresh)) else ""
                said = f"submitted: job {job}, {tasks} workers{fewer} for {len(fresh)} runs; {plan.path}"
                outcomes |= {spec.id: Outcome("queued", said) for spec in fresh}
        return outcomes, False

    def _submit(self, plan: Plan, tasks: int) -> str:
        """The job's number. Where Slurm refuses, one line, and the plan is as it was before."""
        asked = {
            "job-name": job_name(plan.path),
            "array": f"0-{tasks - 1}",
            "partition": self.partition,
            "time": self.time,
            "mem": self.memory,
            "signal": f"B:TERM@{self.grace}",
            "output": "/dev/null",  # until the script has seen that the folder is there
            "open-mode": "append",
            "ntasks": "1",
        }
        words = [f"--{key}={value}" for key, value in asked.items() if value] + ["--requeue", *self.options]
        given = script(plan.path, self.setup)
        try:
            slurm.ask("sbatch", "--test-only", *words, given=given)  # also what would wait for ever
            return slurm.ask("sbatch", "--parsable", *words, given=given).split(";")[0].strip()
        except slurm.Refused as refusal:
            if not (plan.path / plans.JOBS).exists():
                (plan.path / plans.PLAN).unlink()
                plan.path.rmdir()
            chosen = " ".join(f"{key}={value}" for key, value in vars(self).items() if value and key in ASKED)
            raise NormbenchError(
                f"launcher=slurm: Slurm refuses: {refusal}{f' ({chosen})' if chosen else ''}. Nothing was submitted."
            ) from None


def _forget_ended(results: Path) -> None:
    """Forget jobs that have ended. NormbenchError where they did because their nodes do not see this folder."""
    own = [one for one in plans.started(results) if one.launcher == "slurm"]
    alive = live([one.path for one in own])
    for one in own:
        if one.path in alive:
            continue
        one.forget()  # and told once: the folder may be mounted by now
        for job in one.jobs:
            said = slurm.comment(job)
            if said.startswith("normbench: "):  # and not a user's own
                raise NormbenchError(f"launcher=slurm: job {job} ended: {said.removeprefix('normbench: ')}.")


ASKED = ("partition", "time", "memory", "options")


def script(plan: Path, setup: Sequence[str]) -> str:
    """What each task of the array runs."""
    worker = [sys.executable, "-m", "normbench", "worker", str(plan)]
    return SCRIPT.format(
        plan=shlex.quote(str(plan)),
        setup="\n".join(setup),
        worker=shlex.join(worker),
        stopped=STOPPED,
        ended=ENDED,
        killed=KILLED,
        restarts=RESTARTS,
    )


def job_name(plan: Path) -> str:
    """Of a plan's folder: the same runs may be asked for in two results folders."""
    place = hashlib.sha256(str(plan.resolve().parent).encode(errors="surrogateescape")).hexdigest()[:6]
    return f"normbench-{plan.name}-{place}"


def live(known: Sequence[Path]) -> set[Path]:
    """Those of these plans' folders whose jobs wait or run."""
    names = {job_name(plan): plan for plan in known}
    return {names[job] for job in slurm.live([*names]) if job in names} if names else set()
