"""Prints to the terminal. Control characters in names and messages are replaced, so that none reaches it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from normbench.draw.text import hidden, visible, visible_lines

NOT_ASCII = re.compile(r"[^\n -~]")  # characters that may be hidden


def console(stderr: bool = False) -> Console:
    """The terminal; a file or a pipe is wide enough for the tables."""
    terminal = Console(stderr=stderr)
    return terminal if terminal.is_terminal else Console(stderr=stderr, width=140)


def show_rows(console: Console, columns: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> None:
    """Print a table. Too wide columns are folded; rich would cut them, and half a number is another number."""
    table = Table(
        *[Column(Text(visible(name)), overflow="fold") for name in columns],
        box=None,
        pad_edge=False,
        header_style="bold",
    )
    for row in rows:
        table.add_row(*[Text(visible(cell)) if isinstance(cell, str) else cell for cell in row])
    console.print(table)


def say(console: Console, text: str) -> None:
    """Print text verbatim: without markup, colours or wrapping."""
    console.print(Text(visible_lines(text)), soft_wrap=True)


def say_under(console: Console, head: str | Text, text: str | Text) -> None:
    """Print a text after its head; on a terminal all its lines begin in the same column."""
    begin, rest = (Text(visible_lines(part)) if isinstance(part, str) else part for part in (head, text))
    if not console.is_terminal:
        return say(console, begin.plain + rest.plain)
    line = Table.grid("", Column(overflow="fold"))
    line.add_row(begin, rest)
    console.print(line)


def say_json(value: Any) -> None:
    """Print data as JSON; of its non-ASCII characters only hidden ones are escaped."""
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False)
    print(NOT_ASCII.sub(lambda match: json.dumps(match[0])[1:-1] if hidden(match[0]) else match[0], text))
