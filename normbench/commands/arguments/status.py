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


def run(arguments: Namespace, console: Any) -> int:
    from normbench.commands import status

    return status.run(arguments.results, arguments.json, arguments.config_dir, console)
