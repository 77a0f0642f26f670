"""`normbench status`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

EPILOG = """examples:
  normbench status
  normbench status --json | python -m json.tool
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true")


def run(given: Namespace, console: Any) -> int:
    from normbench.commands import status

    return status.run(given.results, given.json, given.config_dir, console)
