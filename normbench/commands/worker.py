"""`normbench worker PLAN`: trains a shard of a plan, or all of it."""

from __future__ import annotations

import os
import socket
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

from normbench.commands.options import ConfigDir, Results, argument, option
from normbench.commands.terminal import console, say
from normbench.config.identity import code
from normbench.config.spec import Spec
from normbench.errors import BadInput, NormbenchError
from normbench.files import locks
from normbench.files.reading import place
from normbench.launch import queue
from normbench.launch.base import KILLED, STOPPED
from normbench.launch.pool import Pool
from normbench.launch.run_missing import ensure_runs, missing
from normbench.runs import plans
from normbench.runs.table import Runs

EPILOG = """examples:
  normbench train -m model=mnist_mlp norm=none,layer 'seed=range(1,6)' launcher=plan   write the plan, print its folder
  seq 0 3 | xargs -P 4 -I{} normbench worker results/plans/1a2b3c4d5e6f --shard {}/4    four workers, here
  parallel -j 4 normbench worker results/plans/1a2b3c4d5e6f --shard {}/4 ::: 0 1 2 3    the same
  ssh node2 'cd project && normbench worker results/plans/1a2b3c4d5e6f --shard 4/5'     one of five, elsewhere

A worker trains the unfinished runs of its shard one after the other and leaves those that other processes write. All
nodes must share the results folder, and its locks: an NFS mounted with nolock or local_lock does not pass them on. On
SIGTERM it saves its run and ends; the same command goes on.

exit codes: 0 done; 2 other code, no such plan, or a run that cannot be trained here; 4 a run failed or is damaged;
            with runs left: 130 it was stopped, 137 the process that trained one was killed
"""


def command(
    path: Annotated[Path, argument("a plan's folder, RESULTS/plans/NAME", "plan", parser=place)],
    results: Results,
    shard: Annotated[str, option("of n shards, the one with this number, from 0", "i/n")] = "0/1",
    config_dir: ConfigDir = None,
) -> int:
    """Train the runs of a shard that are not finished, one after the other; those that others write are left.

    Exit code: 0 done, 2 a run was refused, 4 one failed or is damaged; with runs left 130 if this process was stopped,
    137 if the process that trained one was killed.
    """
    plan = plans.load(path, code())
    messages = plan.shard(*_parsed(shard))
    job = locks.batch_job()
    who = f"{socket.gethostname()} {f'job {job}' if job else f'process {os.getpid()}'}"

    printed = console()

    def tell(line: str) -> None:
        say(printed, f"{time.strftime('%H:%M:%S')} {who}: {line}")
        sys.stdout.flush()

    def listen(spec: Spec, event: dict[str, Any]) -> None:
        if event["event"] == "end":
            launched.add(spec.id)
            reason = f": {event['reason']}" if event["reason"] else ""
            tell(f"{spec.id} {event['status']}{reason}")

    specs, codes, launched = [], [0], set[str]()
    for message in messages:
        try:
            specs.append(Spec.from_json(message))
        except NormbenchError as error:
            tell(f"{message['id']} refused: {error}")
            codes.append(error.code)
    specs = [spec for spec in specs if not queue.failed_since(plan, spec)]
    task = os.environ.get("SLURM_JOB_NAME") == queue.job_name(plan.path)
    stored = Runs(plan.results, {spec.id for spec in specs})
    tell(f"plan {plan.path.name}, shard {shard}: {len(missing(specs, stored))} of {len(messages)} runs to train")
    ensured = ensure_runs(specs, Pool(1), stored, lambda runs: nullcontext(listen), assigned=task)
    for run_id, outcome in ensured.outcomes.items():
        if run_id not in launched and outcome.reason:
            tell(f"{run_id} {outcome.status}: {outcome.reason}")
    damaged = {spec.id for spec in specs if stored.state(spec) == "damaged"}
    for run in (run for run in stored.damaged if run.id in damaged):
        tell(f"{run.id} damaged: {run.reason}; it is left alone (normbench check)")
        codes.append(4)
    ended = {run: outcome.status for run, outcome in ensured.outcomes.items()}
    to_resume = [spec for spec in ensured.missing if ended[spec.id] not in ("busy", "refused", "queued")]
    left = [spec for spec in to_resume if stored.state(spec) in queue.OPEN]
    if left:
        tell(f"{'stopped' if ensured.interrupted else 'killed'}: {len(left)} of {len(messages)} runs are left")
        return STOPPED if ensured.interrupted else KILLED
    return max([*codes, *({"failed": 4, "refused": 2}.get(status, 0) for status in ended.values())])


def _parsed(shard: str) -> tuple[int, int]:
    number, slash, of = shard.partition("/")
    if not (slash and number.isdecimal() and of.isdecimal() and int(number) < int(of)):
        raise BadInput(f"--shard {shard}: write i/n with i from 0 to n-1, such as 0/4.")
    return int(number), int(of)
