"""`normbench worker`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from normbench.reading import place

EPILOG = """examples:
  normbench train -m model=mnist_mlp norm=none,layer 'seed=range(1,6)' launcher=plan    writes the plan, says where
  seq 4 | xargs -P 4 -I{} normbench worker results/plans/1a2b3c4d5e6f                   four workers, here
  parallel -j 4 normbench worker {} ::: $(yes results/plans/1a2b3c4d5e6f | head -4)     the same
  ssh node2 'cd project && normbench worker results/plans/1a2b3c4d5e6f'                 one more, elsewhere

A worker takes one run after another that nobody else writes, trains it, and ends when none is left. The results folder
must be one that all nodes share. SIGTERM lets it save its run; a killed worker's run is taken over.

exit codes: 0 done; 2 another version, other code, no such plan, or a run that cannot be trained here; 4 a run failed;
            130 told to stop with runs left
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("plan", type=place, help="a plan's folder, RESULTS/plans/NAME")


def run(given: Namespace, console: Any) -> int:
    from normbench.commands import worker

    return worker.run(given.plan, console)
