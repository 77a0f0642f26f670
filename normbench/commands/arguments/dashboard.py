"""`normbench dashboard`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

EPILOG = """examples:
  normbench dashboard                                   a link for the browser; Ctrl-C ends it
  normbench dashboard model=mnist_mlp norm=layer,batch  begin with these runs
  ssh -L 8642:localhost:8642 HOST                       then `normbench dashboard --port 8642` there, the link here
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="FILTER", help="KEY=VALUE[,VALUE]: the runs to begin with")
    parser.add_argument("--port", type=int, help="this port or none (default: 8642, or the next one that is free)")


def run(given: Namespace, console: Any) -> int:
    from normbench.commands import dashboard

    return dashboard.run(given.results, given.config_dir, given.words, given.port)
