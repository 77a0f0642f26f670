"""`normbench reproduce`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from normbench.commands import format
from normbench.commands.arguments import from_options
from normbench.commands.format import at_least
from normbench.config import FIDELITIES, FIDELITY_HELP
from normbench.errors import NormbenchError
from normbench.runs import root

EPILOG = """examples:
  normbench reproduce ln2016/fig6 --fidelity smoke      half a minute, on embedded data; below results/own
  normbench reproduce ln2016/fig6 --only ln --only bn-all --only train.batch_size=128
  normbench reproduce bln2022/fig6 --only BLN-18b --controls        only the runs that one claim compares
  normbench reproduce ln2016 --max-time 2h              the same command continues later
  normbench reproduce ln2016/fig6 --controls            also the settings that the paper does not give
  normbench reproduce ln2016/fig6 --max-time 0 --from DIR           judge a colleague's runs here
  normbench reproduce --config-dir examples/own_claims mine/rms     claims of your own on your own experiment
  normbench reproduce ln2016/fig6 logger=wandb          mirror to W&B files below results/wandb
"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "words", nargs="+", metavar="artifact", help="ln2016/fig6, a paper (ln2016), or all; logger=wandb"
    )
    parser.add_argument("--fidelity", default="paper", choices=FIDELITIES, help=f"{FIDELITY_HELP} (default: paper)")
    parser.add_argument(
        "--seeds",
        type=seeds,
        metavar="N|A-B",
        help="seeds per arm, or seeds A to B (default: those that the artifact plans)",
    )
    parser.add_argument("--jobs", type=at_least(0), default=0, metavar="N", help="processes (default: one per core)")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"], help="where to train")
    parser.add_argument(
        "--only", action="append", default=[], metavar="WHAT", help="only this arm, axis value or claim (repeatable)"
    )
    parser.add_argument("--controls", action="store_true", help="also the control settings of the experiment")
    parser.add_argument(
        "--max-time", type=format.seconds, metavar="TIME", help="stop after 90s, 30m, 2h; 0 trains nothing"
    )
    parser.add_argument("--retry-failed", action="store_true", help="train failed runs again")
    parser.add_argument("--dry-run", action="store_true", help="show what would run")
    parser.add_argument(
        "--from",
        action="append",
        default=[],
        type=existing_results,
        dest="others",
        metavar="DIR",
        help="take runs from another results folder as well (repeatable)",
    )
    parser.add_argument(
        "--drop-stale", action="store_true", help="publish fewer runs than before if configurations have changed"
    )


def existing_results(text: str) -> Path:
    """A results folder that is there."""
    folder = root(text)
    if not folder.is_dir():
        raise NormbenchError(f"--from {text}: there is no such folder.")
    return folder


def seeds(text: str) -> int | range:
    """`5` or `6-10`."""
    first, dash, last = text.partition("-")
    if first.isdecimal() and (last.isdecimal() if dash else True):
        asked = range(int(first), int(last) + 1) if dash else int(first)
        if asked and (isinstance(asked, int) or asked[0] > 0):
            return asked
    raise NormbenchError(
        f"--seeds {text} must be a number of seeds (at least 1), or the first and the last, such as 6-10."
    )


def run(arguments: Namespace, console: Any) -> int:
    from normbench.commands import reproduce

    names = [word for word in arguments.words if "=" not in word]
    if not names:
        raise NormbenchError("reproduce needs an artifact, a paper or all. (normbench list artifacts)")
    options = [word for word in arguments.words if "=" in word]
    return reproduce.run(from_options(reproduce.Request, arguments, names=names, words=options), console)
