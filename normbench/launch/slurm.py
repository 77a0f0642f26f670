"""Submits an array of workers to Slurm, and leaves: each worker claims runs of one plan.

Plain `sbatch`: submitit would pickle the call (a stored pickle runs only with the code and the Python that wrote it),
wants one job a run where a worker trains many, and warns of an unknown state wherever there is no slurmdbd. All that is
needed is a script of a few lines, and what `squeue` says.

    sbatch:  array of min(workers, runs, MaxArraySize) tasks, named by plan and results folder: so it is found again
    a task:  normbench worker PLAN; told to stop with runs left, or killed, it puts itself back into the queue
"""

from __future__ import annotations

import contextlib
import hashlib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from normbench import slurm
from normbench.config.identity import RunSpec
from normbench.errors import NormbenchError
from normbench.launch.base import Launcher, Listener, Outcome, python
from normbench.launch.queue import with_jobs
from normbench.launch.worker import STOPPED, settled
from normbench.runs import files, leases, plans, writing
from normbench.runs.plans import Plan

RESTARTS = 5  # of a task that was killed, by whatever, or told to stop before it got anywhere: not for ever
ENDED, KILLED = 143, 137  # a shell's codes for SIGTERM and SIGKILL

# A task is requeued by its array and its number: SLURM_JOB_ID of the last task is that of the whole array. Only while
# it is RUNNING: one that was cancelled stays so, and of one that somebody else requeues the own requeue would fail.
# Limits of many tasks end together, when whoever is asked is busiest: asked again.
SCRIPT = """\
#!/bin/bash
plan={plan}
task="${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID"
if [ ! -r "$plan/plan.json" ]; then
    said="normbench: $plan is not seen on $(hostname): the results folder must be one that all nodes share"
    echo "$said" >&2
    scontrol update "JobId=$task" "Comment=$said"
    exit 2
fi
exec >>"$plan/$task.log" 2>&1
told= worker=
trap 'told=$SECONDS' TERM  # a setup line that it meets goes on to its end
trap 'echo "normbench: setup line failed with code $?: $BASH_COMMAND"' ERR
{setup}

trap - ERR
set +eu  # whatever these lines have set
code={ended}
if [ -z "$told" ]; then
    {worker} &
    worker=$!
    trap 'told=$SECONDS; kill -TERM $worker' TERM
    [ -z "$told" ] || kill -TERM $worker  # told before that trap was set
    wait $worker
    code=$?
    while kill -0 $worker 2>/dev/null; do  # a signal ends `wait` before the worker has saved
        wait $worker
        code=$?
    done
    wait $worker  # once more: one that ended while the trap ran has left its own code
    code=$?
fi
trap '' TERM
again=
case $code in
    {stopped} | {ended})  # the second: told to stop while Python was starting, or before
        again=1
        [ "${{told:-$SECONDS}}" -ge {grace} ] || echo "told to stop after $told s" >>"$plan/$task.lost" ;;
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
        self._refuse_short()
        try:
            largest = slurm.largest_array()  # before anything is written: is there a Slurm?
        except slurm.Refused as refusal:
            raise NormbenchError(f"launcher=slurm: Slurm does not answer: {refusal}. Nothing was submitted.") from None
        with files.alone(results / plans.FOLDER):  # a second command waits, and sees what the first has submitted
            waiting = self._waiting(specs, results)
            _forget_ended(results)
            there = Outcome("queued", "queued already: nothing is submitted for them")
            outcomes = {spec.id: there for spec in specs if spec.id in waiting}
            fresh = [spec for spec in specs if spec.id not in waiting]
            if fresh:
                plan = plans.write(fresh, results)
                tasks = min(self.workers, len(fresh), largest)
                job = self._submit(plan, tasks)
                fewer = f" (MaxArraySize of this Slurm: {largest})" if tasks < min(self.workers, len(fresh)) else ""
                said = f"submitted: job {job}, {tasks} workers{fewer} for {len(fresh)} runs; {plan.path}"
                outcomes |= {spec.id: Outcome("queued", said) for spec in fresh}
        return outcomes, False

    def _refuse_short(self) -> None:
        limit = slurm.seconds(self.time)
        if limit is not None and limit <= self.grace:
            raise NormbenchError(
                f"launcher=slurm: launcher.grace={self.grace} seconds before the end of launcher.time={self.time} "
                f"({limit:.0f} s) is before its beginning. Write a longer time or a shorter grace."
            )

    @staticmethod
    def _waiting(specs: Sequence[RunSpec], results: Path) -> set[str]:
        """Those that jobs will train: of plans for this code, and not tried and failed since they were planned."""
        there, notes = with_jobs(results)
        if notes:
            raise NormbenchError(f"launcher=slurm: {notes[0]} Nothing was submitted.")
        found = set()
        for plan in there:
            ids = {run["id"] for run in plan.runs} if plan.code == plans.code() else ()  # others its workers refuse
            for spec in (spec for spec in specs if spec.id in ids):
                with contextlib.suppress(OSError):  # not told: it stays with those that have it
                    ended = settled(plan, spec, writing.directory(plan.root, spec))
                    if ended is not None and ended.status == "finished before":
                        continue  # failed since: they leave it alone
                found.add(spec.id)
        return found

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
        given = script(plan.path, self.setup, self.grace)
        try:
            slurm.submit("--test-only", *words, script=given)  # also what would wait for ever
            plans.note_jobs(plan, "slurm", [])  # first: whatever ends this command now, the job is found by its name
            said = slurm.submit("--parsable", *words, script=given)
        except slurm.Silent as silence:
            raise NormbenchError(
                f"launcher=slurm: {silence}: it may have been submitted, or not. Repeat the command: what waits is not "
                "submitted again."
            ) from None
        except slurm.Refused as refusal:
            plans.withdraw(plan)
            chosen = " ".join(f"{key}={value}" for key, value in vars(self).items() if value and key in ASKED)
            raise NormbenchError(
                f"launcher=slurm: Slurm refuses: {refusal}{f' ({chosen})' if chosen else ''}. Nothing was submitted."
            ) from None
        job = said.split(";")[0].strip()
        with contextlib.suppress(OSError):  # of a full disk: its name suffices
            plans.note_jobs(plan, "slurm", [job])
        return job


def _forget_ended(results: Path) -> None:
    """Forget jobs that have ended. NormbenchError where they did because their nodes do not see this folder."""
    own = [one for one in plans.started(results)[0] if one.launcher == "slurm"]
    alive = live(own)
    for one in own:
        if one.path in alive:
            continue
        one.forget()  # and told once: the folder may be mounted by now
        for job in one.jobs:
            said = slurm.comment(job)
            if said.startswith("normbench: "):  # and not a user's own
                raise NormbenchError(f"launcher=slurm: job {job} ended: {said.removeprefix('normbench: ')}.")


ASKED = ("partition", "time", "memory", "options")


def script(plan: Path, setup: Sequence[str], grace: int) -> str:
    """What each task of the array runs."""
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
    """Of a plan's folder: the same runs may be asked for in two results folders."""
    place = hashlib.sha256(str(plan.resolve().parent).encode(errors="surrogateescape")).hexdigest()[:6]
    return _named(plan) + place


def _named(plan: Path) -> str:
    return f"normbench-{plan.name}-"


def live(known: Sequence[plans.Started]) -> set[Path]:
    """Those of these plans' folders whose jobs wait or run: by name; by number where the folder has moved meanwhile."""
    names = {job_name(one.path): one.path for one in known}
    found = {names[name] for name in slurm.live(names=[*names]) if name in names} if names else set()
    moved = {job: one.path for one in known if one.path not in found for job in one.jobs}
    for name, jobs in slurm.live(jobs=[*moved]).items() if moved else ():
        found |= {moved[job] for job in jobs if job in moved and name.startswith(_named(moved[job]))}
    return found
