"""What a command prints to: nothing that steers a terminal gets there, whoever wrote it into a name or a reason."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from normbench.papers.text import hidden, visible, visible_lines

MANY = 100  # rows, each of which takes a millisecond to be laid out with the others
PLAIN = re.compile(r"[ -~]*")
UNUSUAL = re.compile(r"[^\n -~]")  # characters that may be hidden


class Terminal(Console):
    """A console of texts without hidden characters: cells of tables and lines, with markup and without."""

    def render_str(self, text: str, **keywords: Any) -> Text:
        return super().render_str(visible_lines(text), **keywords)


def console(stderr: bool = False) -> Console:
    """The terminal; a file or a pipe is wide enough for the tables."""
    found = Terminal(stderr=stderr)
    return found if found.is_terminal else Terminal(stderr=stderr, width=140)


def open_table(*columns: str, whole: Sequence[str] = ()) -> Table:
    """An empty table without lines; the columns in `whole` are not wrapped."""
    made = Table(box=None, pad_edge=False, padding=(0, 2))
    for name in columns:
        made.add_column(name, no_wrap=name in whole)
    return made


def show_rows(console: Console, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table of texts. Of many rows that need no wrapping, and are as wide as they are long, at once."""
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    plain = all(PLAIN.fullmatch(text) for row in rows for text in row)
    table = open_table(*columns)
    if len(rows) > MANY and plain and sum(widths) + 2 * len(widths) <= console.width:
        for name, width in zip(columns, widths, strict=True):
            table.columns[columns.index(name)].min_width = width
        console.print(table)
        lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
        say(console, "\n".join(lines))
        return
    for row in rows:
        table.add_row(*map(escape, row))
    console.print(table)


def cell(text: str) -> str:
    """A cell of a table: text, no markup, and nothing that steers a terminal."""
    return escape(visible(text))


def say(console: Console, text: str) -> None:
    """Text as it is: no markup, no colours, no lines but its own."""
    console.print(visible_lines(text), markup=False, highlight=False, soft_wrap=True)


def say_json(value: Any) -> None:
    """Data as JSON, to be read by a program or by eye: the hidden characters in it are escaped, all others are not."""
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False)
    print(UNUSUAL.sub(lambda found: json.dumps(found[0])[1:-1] if hidden(found[0]) else found[0], text))
