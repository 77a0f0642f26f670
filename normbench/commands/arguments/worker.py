"""`normbench worker`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from normbench.reading import place

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


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("plan", type=place, help="a plan's folder, RESULTS/plans/NAME")


def run(arguments: Namespace, console: Any) -> int:
    from normbench.commands import worker

    return worker.run(arguments.plan, console)
