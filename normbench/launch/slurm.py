"""Submits an array of workers to Slurm and returns: each worker claims runs of one plan.

Plain `sbatch`: submitit would pickle the call (a stored pickle runs only with the code and the Python that wrote it),
wants one job per run where a worker trains many, and warns of an unknown state where there is no slurmdbd. A short
script and the output of `squeue` suffice.

    sbatch:  array of min(workers, runs, MaxArraySize) tasks, named by plan and results folder, to be found again
    a task:  normbench worker PLAN; stopped with runs left, or killed, it requeues itself
"""

from __future__ import annotations

import contextlib
import hashlib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from normbench import slurm
from normbench.config.identity import code
from normbench.config.resolve import ResolvedRun
from normbench.errors import NormbenchError
from normbench.launch.base import Listener, Outcome, python
from normbench.launch.queue import with_jobs
from normbench.launch.worker import STOPPED, settled
from normbench.runs import files, leases, plans, writing
from normbench.runs.plans import Plan

RESTARTS = 5  # of a task that was killed, or stopped before it made progress
ENDED, KILLED = 143, 137  # a shell's codes for SIGTERM and SIGKILL

# A task is requeued by its array and its number, since SLURM_JOB_ID of the last task is that of the whole array. Only
# while it is RUNNING: a cancelled task stays cancelled, and requeuing fails if the task is being requeued already.
# The time limits of many tasks end together, when Slurm is busiest, so the script asks several times.
SCRIPT = """\
#!/bin/bash
plan={plan}
task="${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID"
if [ ! -r "$plan/plan.json" ]; then
    message="normbench: $plan is not seen on $(hostname): the results folder must be one that all nodes share"
    echo "$message" >&2
    scontrol update "JobId=$task" "Comment=$message"
    exit 2
fi
exec >>"$plan/$task.log" 2>&1
stopped_at= worker=
trap 'stopped_at=$SECONDS' TERM  # a running setup line continues to its end
trap 'echo "normbench: setup line failed with code $?: $BASH_COMMAND"' ERR
{setup}

trap - ERR
set +eu  # whatever these lines have set
code={ended}
if [ -z "$stopped_at" ]; then
    {worker} &
    worker=$!
    trap 'stopped_at=$SECONDS; kill -TERM $worker' TERM
    [ -z "$stopped_at" ] || kill -TERM $worker  # the signal came before that trap was set
    wait $worker
    code=$?
    while kill -0 $worker 2>/dev/null; do  # a signal ends `wait` before the worker has saved
        wait $worker
        code=$?
    done
    wait $worker  # once more: if it ended while the trap ran, this is its own code
    code=$?
fi
trap '' TERM
again=
case $code in
    {stopped} | {ended})  # the second: stopped while Python was starting, or before
        again=1
        [ "${{stopped_at:-$SECONDS}}" -ge {grace} ] || echo "told to stop after $stopped_at s" >>"$plan/$task.lost" ;;
    {lost} | {killed})
        again=1
        echo "ended with code $code after $SECONDS s" >>"$plan/$task.lost" ;;
esac
if [ -n "$again" ] && [ "$(cat "$plan/$task.lost" 2>/dev/null | wc -l)" -gt {restarts} ]; then
    echo "normbench: $task came to nothing more than {restarts} times and stays out of the queue: $plan/$task.lost"
    again=
fi
for try in ${{again:+1 2 3 4 5 6}}; do
    if [ "$try" = 6 ]; then
        echo "normbench: Slurm does not answer: $task is not back in the queue. Repeat the command that submitted it"
    elif state=$(squeue --noheader --jobs="$task" --format=%T); then
        [ "$state" = RUNNING ] || break
        echo "normbench: $task goes back into the queue"
        scontrol requeue "$task" && break
    fi
    [ "$try" -gt 4 ] || sleep $((try + RANDOM % 3))
done
exit $code
"""


@dataclass(frozen=True)
class Slurm:
    """Submits runs, except those that are queued already in any plan."""

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
        specs: Sequence[ResolvedRun],
        root: Path,
        listen: Listener = lambda spec, event: None,
        deadline: float | None = None,
    ) -> tuple[dict[str, Outcome], bool]:
        results = root.parent
        limit = slurm.seconds(self.time)
        if limit is not None and limit <= self.grace:
            raise NormbenchError(
                f"launcher=slurm: launcher.grace={self.grace} seconds before the end of launcher.time={self.time} "
                f"({limit:.0f} s) is before its beginning. Write a longer time or a shorter grace."
            )
        try:
            largest = slurm.largest_array()  # fails without Slurm, before anything is written
        except slurm.Refused as refusal:
            raise NormbenchError(f"launcher=slurm: Slurm does not answer: {refusal}. Nothing was submitted.") from None
        with files.alone(results / plans.FOLDER):  # a second command waits, and finds what the first has submitted
            waiting = self._waiting(specs, results)
            _forget_ended(results)
            already = Outcome("queued", "queued already: nothing is submitted for them")
            outcomes = {spec.id: already for spec in specs if spec.id in waiting}
            fresh = [spec for spec in specs if spec.id not in waiting]
            if fresh:
                plan = plans.write([spec.message() for spec in fresh], results, code())
                tasks = min(self.workers, len(fresh), largest)
                job = self._submit(plan, tasks)
                fewer = f" (MaxArraySize of this Slurm: {largest})" if tasks < min(self.workers, len(fresh)) else ""
                reason = f"submitted: job {job}, {tasks} workers{fewer} for {len(fresh)} runs; {plan.path}"
                outcomes |= {spec.id: Outcome("queued", reason) for spec in fresh}
        return outcomes, False

    @staticmethod
    def _waiting(specs: Sequence[ResolvedRun], results: Path) -> set[str]:
        """The ids of the runs that jobs will train: in plans of this code, and not failed since they were planned.

        Workers refuse plans of other code.
        """
        plans_with_jobs, notes = with_jobs(results)
        if notes:
            raise NormbenchError(f"launcher=slurm: {notes[0]} Nothing was submitted.")
        found = set()
        for plan in plans_with_jobs:
            ids = {run["id"] for run in plan.runs} if plan.code == code() else ()
            for spec in (spec for spec in specs if spec.id in ids):
                with contextlib.suppress(OSError):  # unreadable now: its jobs will train it
                    ended = settled(plan, spec, writing.directory(plan.root, spec))
                    if ended is not None and ended.status == "finished before":
                        continue  # failed since: its jobs skip it
                found.add(spec.id)
        return found

    def _submit(self, plan: Plan, tasks: int) -> str:
        """Submit the plan; returns the job's number. If Slurm refuses: NormbenchError, and the plan is as before."""
        request = {
            "job-name": job_name(plan.path),
            "array": f"0-{tasks - 1}",
            "partition": self.partition,
            "time": self.time,
            "mem": self.memory,
            "signal": f"B:TERM@{self.grace}",
            "output": "/dev/null",  # until the script has found the folder
            "open-mode": "append",
            "ntasks": "1",
        }
        words = [f"--{key}={value}" for key, value in request.items() if value] + ["--requeue", *self.options]
        batch_script = script(plan.path, self.setup, self.grace)
        try:
            slurm.submit("--test-only", *words, script=batch_script)  # also refuses a job that would wait for ever
            plans.note_jobs(plan, "slurm", [])  # first: if this command is killed now, the job is found by its name
            answer = slurm.submit("--parsable", *words, script=batch_script)
        except slurm.Silent as silence:
            raise NormbenchError(
                f"launcher=slurm: {silence}: it may have been submitted, or not. Repeat the command: what waits is not "
                "submitted again."
            ) from None
        except slurm.Refused as refusal:
            plans.withdraw(plan)
            chosen = " ".join(f"{key}={value}" for key, value in vars(self).items() if value and key in REQUEST_KEYS)
            raise NormbenchError(
                f"launcher=slurm: Slurm refuses: {refusal}{f' ({chosen})' if chosen else ''}. Nothing was submitted."
            ) from None
        job = answer.split(";")[0].strip()
        with contextlib.suppress(OSError):  # a full disk: its name suffices
            plans.note_jobs(plan, "slurm", [job])
        return job


launcher = Slurm


def _forget_ended(results: Path) -> None:
    """Forget jobs that have ended. NormbenchError if they ended because their nodes do not see this folder."""
    submitted = [one for one in plans.started(results)[0] if one.launcher == "slurm"]
    alive = live(submitted)
    for one in submitted:
        if one.path in alive:
            continue
        one.forget()  # and reported once: the folder may be mounted by now
        for job in one.jobs:
            answer = slurm.comment(job)
            if answer.startswith("normbench: "):  # not a comment of the user's
                raise NormbenchError(f"launcher=slurm: job {job} ended: {answer.removeprefix('normbench: ')}.")


REQUEST_KEYS = ("partition", "time", "memory", "options")


def script(plan: Path, setup: Sequence[str], grace: int) -> str:
    """The batch script of each task of the array."""
    worker = python("-m", "normbench", "worker", str(plan))
    return SCRIPT.format(
        plan=shlex.quote(str(plan)),
        setup="\n".join(setup),
        worker=shlex.join(worker),
        stopped=STOPPED,
        ended=ENDED,
        killed=KILLED,
        lost=leases.LOST,
        grace=grace,
        restarts=RESTARTS,
    )


def job_name(plan: Path) -> str:
    """The job's name: by the plan's name and results folder, since the same plan may be in two of them."""
    place = hashlib.sha256(str(plan.resolve().parent).encode(errors="surrogateescape")).hexdigest()[:6]
    return _named(plan) + place


def _named(plan: Path) -> str:
    return f"normbench-{plan.name}-"


def live(submitted: Sequence[plans.Started]) -> set[Path]:
    """The folders of these plans whose jobs wait or run: found by name, or by number if the folder has been moved."""
    names = {job_name(one.path): one.path for one in submitted}
    found = {names[name] for name in slurm.live(names=[*names]) if name in names} if names else set()
    moved = {job: one.path for one in submitted if one.path not in found for job in one.jobs}
    for name, jobs in slurm.live(jobs=[*moved]).items() if moved else ():
        found |= {moved[job] for job in jobs if job in moved and name.startswith(_named(moved[job]))}
    return found
