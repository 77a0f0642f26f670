"""`normbench report`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from normbench.reading import place

EPILOG = """examples:
  normbench report                                      write results/report/index.html; open it in a browser
  normbench report --output public                      for a web server: plain files, no external request
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--output", metavar="DIR", type=place, help="where to write it (default: RESULTS/report)")


def run(arguments: Namespace, console: Any) -> int:
    """Write the site and print where it is; damaged artifacts are left out, with a note."""
    from normbench.commands import format
    from normbench.commands.terminal import say
    from normbench.web import report

    written = report.build(arguments.results, arguments.output, arguments.config_dir)
    for note in written.notes:
        say(console, f"  note: {note}")
    if hint := format.where_published(arguments.results):
        say(console, f"  note: {hint}")
    say(console, f"report  {written.index}")
    return 0
