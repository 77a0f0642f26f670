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


def run(given: Namespace, console: Any) -> int:
    """Write the site and say where; what is damaged is left out of it, with a line."""
    from normbench.commands import format
    from normbench.commands.terminal import say
    from normbench.web import report

    written = report.build(given.results, given.output, given.config_dir)
    for note in written.notes:
        say(console, f"  note: {note}")
    if hint := format.where_published(given.results):
        say(console, f"  note: {hint}")
    say(console, f"report  {written.index}")
    return 0
