"""`normbench doctor`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

EPILOG = ""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true")


def run(given: Namespace, console: Any) -> int:
    from normbench.commands import doctor

    return doctor.run(given.results, given.json, console)
