"""Submits one array of workers to Slurm and returns: task i trains shard i of the plan.

Plain `sbatch`: submitit would pickle the call (a stored pickle runs only with the code and the Python that wrote it),
wants one job per run where a task trains many, and warns of an unknown state where there is no slurmdbd. A short
script and the output of `squeue` suffice.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from normbench.config.identity import code
from normbench.config.spec import Spec
from normbench.errors import BadInput, NormbenchError
from normbench.launch import batch_jobs
from normbench.launch.base import KILLED, STOPPED, Listener, Outcome, python
from normbench.launch.queue import job_name, left_to_others
from normbench.runs import files, plans
from normbench.runs.plans import Plan

RESTARTS = 5  # of a task that was killed, or stopped before it made progress
ENDED = 143  # a shell's code for SIGTERM

# A task is requeued by its array and its number, since SLURM_JOB_ID of the last task is that of the whole array. Only
# while it is RUNNING: a cancelled task stays cancelled, and requeuing fails if the task is being requeued already.
# The time limits of many tasks end together, when Slurm is busiest, so the script asks several times.
SCRIPT = """\
#!/bin/bash
task="${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID"
lost={plan}/$task.lost
stopped_at=
trap 'stopped_at=$SECONDS' TERM  # a running setup line continues to its end
trap 'echo "normbench: setup line failed with code $?: $BASH_COMMAND"' ERR
{setup}

trap - ERR
set +eu  # whatever these lines have set
code={ended}
if [ -z "$stopped_at" ]; then
    {worker} --shard "$SLURM_ARRAY_TASK_ID/{tasks}" &
    trap 'stopped_at=$SECONDS; kill -TERM $!' TERM
    [ -z "$stopped_at" ] || kill -TERM $!  # the signal came before that trap was set
    until wait $!; ! kill -0 $! 2>/dev/null; do :; done  # a signal ends `wait` before the worker has saved
    wait $!
    code=$?
fi
trap '' TERM
case $code in
    {stopped} | {ended}) [ "${{stopped_at:-$SECONDS}}" -ge {grace} ] || echo "stopped after $stopped_at s" >>"$lost" ;;
    {killed}) echo "killed after $SECONDS s" >>"$lost" ;;
    *) exit $code ;;
esac
if [ -e "$lost" ] && [ "$(wc -l <"$lost")" -gt {restarts} ]; then
    echo "normbench: $task came to nothing more than {restarts} times and stays out of the queue: $lost"
    exit $code
fi
for try in 1 2 3 4 5; do
    if state=$(squeue --noheader --jobs="$task" --format=%T); then
        [ "$state" = RUNNING ] || exit $code
        echo "normbench: $task goes back into the queue"
        scontrol requeue "$task" && exit $code
    fi
    sleep $((try + RANDOM % 3))
done
echo "normbench: Slurm does not answer: $task is not back in the queue. Repeat the command that submitted it"
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
        specs: Sequence[Spec],
        root: Path,
        listen: Listener = lambda spec, event: None,
        deadline: float | None = None,
    ) -> tuple[dict[str, Outcome], bool]:
        limit = batch_jobs.seconds(self.time)
        if limit is not None and limit <= self.grace:
            raise BadInput(
                f"launcher=slurm: launcher.grace={self.grace} seconds before the end of launcher.time={self.time} "
                f"({limit:.0f} s) is before its beginning. Write a longer time or a shorter grace."
            )
        results = root.parent
        with files.alone(results / plans.FOLDER):  # a second command waits, and finds what the first has submitted
            outcomes = left_to_others(specs, results)
            if fresh := [spec for spec in specs if spec.id not in outcomes]:
                tasks = min(self.workers, len(fresh))
                plan = plans.new([spec.to_json() for spec in fresh], results, code(), tasks)
                job, note = self._submit(plan)
                reason = f"submitted: job {job}, {tasks} tasks for {len(fresh)} runs; {plan.path}{note}"
                outcomes |= {spec.id: Outcome("queued", reason) for spec in fresh}
        return outcomes, False

    def _submit(self, plan: Plan) -> tuple[str, str]:
        """Write and submit the plan; returns the job's number and a note. NormbenchError if Slurm refuses."""
        request = {
            "job-name": job_name(plan.path),
            "array": f"0-{plan.tasks - 1}",
            "partition": self.partition,
            "time": self.time,
            "mem": self.memory,
            "signal": f"B:TERM@{self.grace}",
            "output": f"{plan.path}/%A_%a.log",
            "open-mode": "append",
            "ntasks": "1",
        }
        words = [f"--{key}={value}" for key, value in request.items() if value] + ["--requeue", *self.options]
        batch_script = script(plan, self.setup, self.grace)
        try:
            batch_jobs.ask("sbatch", "--test-only", *words, given=batch_script)  # refuses what would wait for ever, too
            unseen = (plan.path / plans.BATCH).exists() and not [*plan.path.glob("*.log")]
            plan.write()
            files.atomic_write(plan.path / plans.BATCH, batch_script.encode())  # first: the job is known by its name
            answer = batch_jobs.ask(
                "sbatch", "--parsable", *words, given=batch_script, seconds=batch_jobs.SUBMIT_SECONDS
            )
        except batch_jobs.Silent as silence:
            raise BadInput(
                f"launcher=slurm: {silence}: it may have been submitted, or not. Repeat the command: what waits is not "
                "submitted again."
            ) from None
        except NormbenchError as refusal:
            chosen = " ".join(f"{key}={value}" for key, value in vars(self).items() if value and key in REQUEST_KEYS)
            raise BadInput(
                f"launcher=slurm: nothing was submitted: {refusal}{f' ({chosen})' if chosen else ''}."
            ) from None
        note = (
            " (its last job left no log there: was it cancelled, or do its nodes not see that folder?)"
            if unseen
            else ""
        )
        return answer.split(";")[0].strip(), note


launcher = Slurm

REQUEST_KEYS = ("partition", "time", "memory", "options")


def script(plan: Plan, setup: Sequence[str], grace: int) -> str:
    """The batch script of each task of the array."""
    return SCRIPT.format(
        plan=shlex.quote(str(plan.path)),
        setup="\n".join(setup),
        worker=shlex.join(python("-m", "normbench", "worker", str(plan.path))),
        tasks=plan.tasks,
        stopped=STOPPED,
        ended=ENDED,
        killed=KILLED,
        grace=grace,
        restarts=RESTARTS,
    )
