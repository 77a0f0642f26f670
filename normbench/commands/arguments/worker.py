"""`normbench worker`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from normbench.reading import place

EPILOG = """examples:
  normbench train -m model=mnist_mlp norm=none,layer 'seed=range(1,6)' launcher=plan   write the plan, print its folder
  seq 0 3 | xargs -P 4 -I{} normbench worker results/plans/1a2b3c4d5e6f --shard {}/4    four workers, here
  parallel -j 4 normbench worker results/plans/1a2b3c4d5e6f --shard {}/4 ::: 0 1 2 3    the same
  ssh node2 'cd project && normbench worker results/plans/1a2b3c4d5e6f --shard 4/5'     one of five, elsewhere

A worker trains the unfinished runs of its shard one after the other and leaves those that other processes write. All
nodes must share the results folder. On SIGTERM it saves its run and ends; the same command goes on.

exit codes: 0 done; 2 other code, no such plan, or a run that cannot be trained here; 4 a run failed or is damaged;
            with runs left: 130 it was stopped, 137 the process that trained one was killed
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("plan", type=place, help="a plan's folder, RESULTS/plans/NAME")
    parser.add_argument("--shard", default="0/1", metavar="i/n", help="of n shards, the one with this number, from 0")


def run(arguments: Namespace, console: Any) -> int:
    from normbench.commands import worker

    return worker.run(arguments.plan, arguments.shard, console)
