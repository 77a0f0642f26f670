"""`normbench sample`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

EPILOG = """examples:
  normbench sample 00955a672333                         the files that the run left when it ended
  normbench sample 0095 --count 20 --seed 7             20 more, from the weights that it kept
  normbench sample 2769 --near "a dog runs"             images whose captions are nearest to this one
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("run", help="id, the start of one, or its directory")
    parser.add_argument("--count", type=int, metavar="N", help="draw N more")
    parser.add_argument("--near", metavar="TEXT", help="test examples that the model takes for nearest to a text")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="by which they are drawn (default: 1)")
    parser.add_argument("--weights", metavar="NAME", help="last, best or step-N (default: last if it was kept)")


def run(given: Namespace, console: Any) -> int:
    from normbench.commands import sample

    return sample.run(
        given.run, given.results, given.count, given.near, given.seed, given.weights, given.config_dir, console
    )
