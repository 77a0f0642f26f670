"""`normbench export`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from normbench.errors import NormbenchError
from normbench.reading import place

EPILOG = """examples:
  normbench export wandb                                W&B files below results/wandb; nothing leaves the machine
  normbench export wandb --mode online --entity TEAM    to the server that wandb is set up for
  normbench export csv ln2016/fig6                      one row per evaluation: results/export/curves.csv
  normbench export parquet model=mnist_mlp norm=none,layer --output curves.parquet

filters are those of normbench compare: KEY=VALUE[,VALUE]; or an experiment, an arm, or the beginning of an id.
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("form", choices=["wandb", "csv", "parquet"])
    parser.add_argument("words", nargs="*", metavar="FILTER", help="which runs (default: all finished ones)")
    parser.add_argument(
        "--output", metavar="FILE", type=place, help="csv, parquet: the file to write (-: standard output)"
    )
    parser.add_argument("--mode", choices=["offline", "online"], help="wandb: files (the default), or the server")
    parser.add_argument("--project", help="wandb: the project (default: normbench)")
    parser.add_argument("--entity", help="wandb: user or team (default: W&B's own)")
    parser.add_argument("--again", action="store_true", help="wandb: also send runs that were sent before")


def run(arguments: Namespace, console: Any) -> int:
    from normbench.commands import export

    for name in ("output",) if arguments.form == "wandb" else ("mode", "project", "entity", "again"):
        if getattr(arguments, name) not in (None, False):
            raise NormbenchError(f"--{name} is not an option of export {arguments.form}.")
    if arguments.form != "wandb":
        return export.run_table(arguments.form, arguments.results, arguments.words, arguments.output, console)
    project = "normbench" if arguments.project is None else arguments.project
    target = (arguments.mode or "offline", project, arguments.entity or "")
    return export.run_wandb(arguments.results, arguments.words, *target, arguments.again, console)
