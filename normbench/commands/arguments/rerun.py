"""`normbench rerun`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from normbench.commands.format import at_least

EPILOG = """examples:
  normbench rerun 00955a672333 --epochs 1               repeat the first epoch and compare the curves
  normbench rerun 0095 --epochs 1 --json

the answer, for each metric:
  to the byte     equal
  rounding        no value differs by more than 1e-5 of its size
  chaotic, inside the seeds' spread
                  training amplified the rounding of another processor, torch or backend, but every value lies in the
                  95 % prediction interval (over all values) of the run and three or more runs of other seeds
  different       anything else, with the place where it begins
In the same, fully recorded environment every difference is a failure: not deterministic.

exit codes: 0 the first three; 4 different, or not deterministic
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("run", help="id, the start of one, or its directory")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--epochs", type=at_least(1), metavar="N", help="only the first N epochs")
    length.add_argument("--steps", type=at_least(1), metavar="N", help="only the first N updates")
    parser.add_argument("--json", action="store_true")


def run(arguments: Namespace, console: Any) -> int:
    from normbench.commands import rerun

    return rerun.run(
        arguments.run,
        arguments.results,
        arguments.epochs,
        arguments.steps,
        arguments.config_dir,
        arguments.json,
        console,
    )
