"""The options that several commands share, and the help of a command."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from typer.core import TyperCommand

from normbench import runs
from normbench.commands import terminal
from normbench.config import FIDELITY_HELP
from normbench.errors import BadInput
from normbench.files import reading


class Command(TyperCommand):
    """A command whose help ends in its epilog as it is written, and that refuses two folders for one option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:
            *_, order = self.make_parser(ctx).parse_args([*args])
            for parameter in order:
                if parameter.metavar == "DIR" and order.count(parameter) > 1:
                    raise BadInput(f"{parameter.opts[-1]} is given twice. Write it once.")
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        answered = super().invoke(ctx)
        return answered.run() if isinstance(answered, Answering) else answered

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        if self.epilog:
            formatter.write(f"\n{self.epilog}")


def folder(given: str) -> Path:
    """--config-dir."""
    if not given:
        raise BadInput("--config-dir '' names no folder.")
    return reading.place(given)


def option(help: str, metavar: str | None = None, *names: str, **settings: Any) -> Any:
    return typer.Option(*names, help=help, metavar=metavar, **settings)


def repeatable(help: str, metavar: str, *names: str, **settings: Any) -> Any:
    return option(f"{help} (repeatable)", metavar, *names, default_factory=list, show_default=False, **settings)


def flag(name: str, help: str) -> Any:
    return typer.Option(name, help=help)


def argument(help: str, metavar: str | None = None, **settings: Any) -> Any:
    return typer.Argument(help=help, metavar=metavar, **settings)


Results = Annotated[
    Path,
    option(
        "where results lie (NORMBENCH_RESULTS, else ./results)",
        "DIR",
        parser=runs.root,
        default_factory=runs.root,
        show_default=False,
    ),
]
ConfigDir = Annotated[
    Path | None,
    option(
        "a folder of your own files, laid out like conf/: norm/, model/, data/, ...; and papers/ with your claims",
        "DIR",
        parser=folder,
    ),
]
Json = Annotated[bool, flag("--json", "print the answer as JSON; progress goes to standard error")]
RunName = Annotated[str, argument("a run's id, the beginning of one, or a run's directory")]
Filters = Annotated[
    list[str],
    argument(
        "KEY=VALUE[,VALUE], KEY!=VALUE, 'KEY>VALUE': which runs", "FILTER", default_factory=list, show_default=False
    ),
]
Fidelity = Annotated[Literal["paper", "reduced", "proxy", "smoke"], option(FIDELITY_HELP)]
Jobs = Annotated[int, option("number of processes", "N", min=0, show_default="one per core")]
Device = Annotated[Literal["cpu", "cuda"], option("where to compute")]
DryRun = Annotated[bool, flag("--dry-run", "list what would run, and how long it takes; train nothing")]
Weights = Annotated[str | None, option("which weights: last, best or step-N (default: last, if stored)", "NAME")]


@dataclass(frozen=True, kw_only=True)
class Answering(ABC):
    """A command as a class, called with `run`: its fields are its options."""

    results: Results
    as_json: Json = False

    @cached_property
    def console(self) -> Console:
        """The terminal; with --json standard error."""
        return terminal.console(stderr=self.as_json)

    def say(self, text: str) -> None:
        terminal.say(self.console, text)

    @abstractmethod
    def run(self) -> int:
        """The work; returns the exit code."""
