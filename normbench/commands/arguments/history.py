"""`normbench history`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

EPILOG = """examples:
  normbench history BLN-12                              every verdict that it has had, under which rules
  normbench history                                     all claims
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("claim", nargs="?", help="a claim's id; all of them without one")
    parser.add_argument("--json", action="store_true", help="the lines as JSON")


def run(given: Namespace, console: Any) -> int:
    from normbench.commands import history

    return history.show(given.claim, given.results, given.json, given.config_dir, console)
