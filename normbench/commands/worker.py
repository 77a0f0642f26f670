"""`normbench worker PLAN`: trains a shard of a plan, or all of it."""

from __future__ import annotations

import re
import socket
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

from normbench.commands.options import argument, option
from normbench.commands.terminal import console, say
from normbench.config.spec import Spec
from normbench.errors import BadInput, NormbenchError
from normbench.files.reading import place
from normbench.launch import plan
from normbench.launch.pool import Pool
from normbench.launch.run_missing import ensure_runs, missing
from normbench.runs.run import FINISHED
from normbench.runs.table import Runs

EPILOG = """examples:
  normbench train -m model=mnist_mlp norm=none,layer 'seed=range(1,6)' launcher=plan   write the plan, print its folder
  seq 0 3 | xargs -P 4 -I{} normbench worker results/plans/1a2b3c4d5e6f --shard {}/4    four workers, here
  ssh node2 'cd project && normbench worker results/plans/1a2b3c4d5e6f --shard 4/5'     one of five, elsewhere

A worker trains the unfinished runs of its shard one after the other and leaves those that other processes write. All
nodes must share the results folder, and its locks: an NFS mounted with nolock or local_lock does not pass them on. On
SIGTERM it saves its run and ends; the same command goes on. More, for Slurm, SSH and Dask: docs/workers.md.

exit codes: 0 done; 2 other code, no such plan, or a run that cannot be trained here; 4 a run failed or is damaged;
            130 stopped, with runs left
"""
CODES = {"failed": 4, "damaged": 4, "refused": 2}


def command(
    path: Annotated[Path, argument("a plan's folder, RESULTS/plans/NAME", "plan", parser=place)],
    shard: Annotated[str, option("of n shards, the one with this number, from 0", "i/n")] = "0/1",
) -> int:
    """Train the runs of a shard that are not finished, one after the other; those that others write are left."""
    planned = plan.read(path)
    messages = planned.shard(*_parsed(shard))
    printed = console()

    def tell(line: str) -> None:
        say(printed, f"{time.strftime('%H:%M:%S')} {socket.gethostname()} shard {shard}: {line}")
        sys.stdout.flush()

    def listen(spec: Spec, event: dict[str, Any]) -> None:
        if event["event"] == "end":
            report(spec.id, event["status"], event["reason"])

    def report(run: str, status: str, reason: str) -> None:
        tell(f"{run} {status}{f': {reason}' if reason else ''}")
        codes.append(CODES.get(status, 0))

    codes, specs = [0], []
    for message in messages:
        try:
            specs.append(Spec.from_json(message))
        except NormbenchError as error:
            report(message["id"], "refused", str(error))
    stored = Runs(planned.results, {spec.id for spec in specs})
    tell(f"plan {planned.path.name}: {len(missing(specs, stored))} of {len(messages)} runs to train")
    ensured = ensure_runs(specs, Pool(1), stored, lambda runs: nullcontext(listen))
    for spec in specs:
        if stored.state(spec) == "damaged" and (copy := stored.copy(spec.id)):
            report(spec.id, "damaged", f"{copy.reason}; it is left alone (normbench check)")
    if ensured.interrupted:
        left = sum(stored.state(spec) not in FINISHED for spec in specs)
        tell(f"stopped: {left} of {len(messages)} runs are left")
        return 130
    return max(codes)


def _parsed(shard: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+)/(\d+)", shard)
    if not match or int(match[1]) >= int(match[2]):
        raise BadInput(f"--shard {shard}: write i/n with i from 0 to n-1, such as 0/4.")
    return int(match[1]), int(match[2])
