"""`normbench battery`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from normbench.commands.arguments import from_options
from normbench.commands.format import at_least
from normbench.config import FIDELITIES, FIDELITY_HELP

EPILOG = """examples:
  normbench battery --norm my_norm.py                   a file with one class marked @normalizer("my_norm")
  normbench battery --norm examples/own_normalizer/norm/centre.yaml
  normbench battery --norm rms --dry-run                list what would be trained and how long it takes
  normbench battery --norm rms --only ln2016/fig6       a normalizer that is shipped
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--norm", required=True, metavar="FILE|NAME", help="a .py or .yaml file, or a name")
    parser.add_argument("--fidelity", default="smoke", choices=FIDELITIES, help=f"{FIDELITY_HELP} (default: smoke)")
    parser.add_argument("--seeds", type=at_least(1), default=5, metavar="N", help="seeds per normalizer (default: 5)")
    parser.add_argument("--jobs", type=at_least(0), default=0, metavar="N", help="processes (default: one per core)")
    parser.add_argument(
        "--only", action="append", default=[], metavar="EXPERIMENT", help="only this experiment (repeatable)"
    )
    parser.add_argument("--dry-run", action="store_true", help="list what would be trained; examine and train nothing")


def run(arguments: Namespace, console: Any) -> int:
    from normbench.commands import battery

    return battery.run(from_options(battery.Request, arguments), console)
