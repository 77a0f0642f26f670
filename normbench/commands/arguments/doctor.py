"""`normbench doctor`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

EPILOG = ""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true")


def run(arguments: Namespace, console: Any) -> int:
    from normbench.commands import doctor

    return doctor.run(arguments.results, arguments.json, console)
