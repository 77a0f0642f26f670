"""`normbench sample`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from normbench.commands.arguments import from_options

EPILOG = """examples:
  normbench sample 9b1c1575a08c                         the files that the run left when it ended
  normbench sample 9b1c1 --count 20 --seed 7            20 more, from the weights that it kept
  normbench sample 4f13e --near "a dog runs"            images whose captions are nearest to this one; sentences
                                                        of held-out books, where the model reads such
  normbench sample 5379 --text "a line" --bias 0.7      a text of yours in a hand that the model draws

Runs are published without their weights: train such a run first, below another --results (normbench show RUN).
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("run", help="id, the start of one, or its directory")
    parser.add_argument("--count", type=int, metavar="N", help="draw N more")
    parser.add_argument("--near", metavar="TEXT", help="test examples that the model takes for nearest to a text")
    parser.add_argument("--text", metavar="TEXT", help="write a text, with --count N in so many hands")
    parser.add_argument(
        "--bias",
        type=float,
        default=0.0,
        metavar="B",
        help="of --text: 0 as the model has it, more draws what is likely",
    )
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="by which they are drawn (default: 1)")
    parser.add_argument("--weights", metavar="NAME", help="last, best or step-N (default: last if it was kept)")


def run(given: Namespace, console: Any) -> int:
    from normbench.commands import sample

    return sample.run(given.run, given.results, from_options(sample.Asked, given), given.config_dir, console)
