"""`normbench history`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

EPILOG = """examples:
  normbench history BLN-12                              all its verdicts, with the rules of each
  normbench history                                     all claims
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("claim", nargs="?", help="a claim's id (default: all claims)")
    parser.add_argument("--json", action="store_true", help="the lines as JSON")


def run(arguments: Namespace, console: Any) -> int:
    from normbench.commands import history

    return history.show(arguments.claim, arguments.results, arguments.json, arguments.config_dir, console)
