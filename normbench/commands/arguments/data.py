"""`normbench data`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from normbench.errors import NormbenchError

EPILOG = """examples:
  normbench data                                        what is there
  normbench data get mnist                              bring it (checked, resumable)
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", choices=["get"])
    parser.add_argument("set", nargs="?", metavar="set")


def run(given: Namespace, console: Any) -> int:
    from normbench.commands import catalogue

    if given.action is None:
        return catalogue.data_sets(console)
    if given.set is None:
        raise NormbenchError("data get needs a set, such as: normbench data get mnist")
    return catalogue.data_get(given.set, console)
