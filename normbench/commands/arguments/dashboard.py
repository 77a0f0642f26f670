"""`normbench dashboard`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from normbench.commands.format import at_least

EPILOG = """examples:
  normbench dashboard                                   print a link for the browser; Ctrl-C ends it
  normbench dashboard model=mnist_mlp norm=layer,batch  begin with these runs
  ssh -L 8642:localhost:8642 HOST                       then `normbench dashboard --port 8642` there; open the link here
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="FILTER", help="KEY=VALUE[,VALUE]: the runs to begin with")
    parser.add_argument("--port", type=at_least(1), help="use this port (default: 8642, or the next free one)")


def run(arguments: Namespace, console: Any) -> int:
    from normbench.commands import dashboard

    return dashboard.run(arguments.results, arguments.config_dir, arguments.words, arguments.port)
