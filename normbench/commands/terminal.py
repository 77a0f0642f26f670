"""What a command prints to."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from normbench.papers.text import visible, visible_lines


def console() -> Console:
    """The terminal; a file or a pipe is wide enough for the tables."""
    found = Console()
    return found if found.is_terminal else Console(width=140)


def open_table(*columns: str, whole: Sequence[str] = ()) -> Table:
    """An empty table without lines; the columns in `whole` are not wrapped."""
    made = Table(box=None, pad_edge=False, padding=(0, 2))
    for name in columns:
        made.add_column(name, no_wrap=name in whole)
    return made


def cell(text: str) -> str:
    """A cell of a table: text, no markup, and nothing that steers a terminal."""
    return escape(visible(text))


def say(console: Console, text: str) -> None:
    """Text as it is: no markup, no colours, no lines but its own."""
    console.print(visible_lines(text), markup=False, highlight=False, soft_wrap=True)
