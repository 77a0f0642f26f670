"""`normbench show`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

EPILOG = """examples:
  normbench show 00955a672333                           a run, raw or published
  normbench show 0095 --json
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("run", help="id, the start of one, or its directory")
    parser.add_argument("--json", action="store_true")


def run(arguments: Namespace, console: Any) -> int:
    from normbench.commands import show

    return show.show(arguments.run, arguments.results, arguments.json, console)
