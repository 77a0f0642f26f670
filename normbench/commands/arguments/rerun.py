"""`normbench rerun`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

EPILOG = """examples:
  normbench rerun 00955a672333 --epochs 1               the first epoch again: is the curve the same to the byte?
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("run", help="id, the start of one, or its directory")
    parser.add_argument("--epochs", type=int, metavar="N", help="only the first N epochs")
    parser.add_argument("--steps", type=int, metavar="N", help="only the first N updates")


def run(given: Namespace, console: Any) -> int:
    from normbench.commands import show

    return show.rerun(given.run, given.results, given.epochs, given.steps, given.config_dir, console)
