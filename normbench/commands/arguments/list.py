"""`normbench list`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

EPILOG = """examples:
  normbench list norms
  normbench list data --config-dir DIR    also your own, DIR/data/NAME.yaml (normbench data --help)
  normbench list --json
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("kind", nargs="?", choices=["artifacts", "models", "norms", "data"])
    parser.add_argument("--json", action="store_true")


def run(arguments: Namespace, console: Any) -> int:
    from normbench.commands import list as list_command

    return list_command.show(arguments.kind, arguments.json, arguments.config_dir, console)
