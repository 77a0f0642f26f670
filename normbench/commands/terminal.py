"""Prints to the terminal. Control characters in names and messages are replaced, so that none reaches it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import compress
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markup import escape
from rich.text import Text

from normbench.draw.text import hidden, visible, visible_lines

MANY = 100  # rows; laying out each takes a millisecond
GAP = "  "  # between columns
NARROW = 120  # characters of a terminal, below which long texts are put under their row
SHORTEST = 20  # characters of a line on the narrowest terminal
SIMPLE = re.compile(r"[ -~]*")
WORD = re.compile(r"\[\S+, \S+\]\S*|\S+")  # not broken over lines; an interval is one word
NOT_ASCII = re.compile(r"[^\n -~]")  # characters that may be hidden


class Terminal(Console):
    """A console that makes control characters visible and cuts no line."""

    def render_str(self, text: str, **keywords: Any) -> Text:
        return super().render_str(visible_lines(text), **keywords)

    def print(self, *objects: Any, **keywords: Any) -> None:
        super().print(*objects, **{"crop": False, **keywords})


def console(stderr: bool = False) -> Console:
    """The terminal; a file or a pipe is wide enough for the tables."""
    found = Terminal(stderr=stderr)
    return found if found.is_terminal else Terminal(stderr=stderr, width=140)


class Table:
    """A table that cuts no text: a number without its last digits is another number.

    Too wide columns are folded between words, the widest first, except those of `whole`. On a terminal too narrow for
    that each row becomes a list; a file or pipe is as wide as needed. On a narrow terminal the texts of the columns
    `below` are put under their row, in full width.
    """

    def __init__(self, *columns: str, whole: Sequence[str] = (), below: Sequence[str] = ()) -> None:
        self.columns = columns
        self.whole = whole
        self.below = below
        self.rows: list[Sequence[str]] = []

    def add_row(self, *cells: str) -> None:
        self.rows.append(cells)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        names, *rows = [
            [console.render_str(text, highlight=False) for text in row] for row in (self.columns, *self.rows)
        ]
        moved = [width < NARROW and name in self.below for name in self.columns]
        long = [list(compress(row, moved)) for row in rows]
        names, *rows = [[text for text, out in zip(row, moved, strict=True) if not out] for row in (names, *rows)]
        most = [max(map(_longest, column)) for column in zip(names, *rows, strict=True)]
        least = [
            wide if name.plain in self.whole else max(map(_word, [name, *column]))
            for wide, name, *column in zip(most, names, *rows, strict=True)
        ]
        room = width - len(GAP) * (len(names) - 1)
        fits = sum(least) <= room or not console.is_terminal
        widths = _shared(least, most, room)
        if fits:
            yield _in_columns(names, widths, head=True)
        for row, texts in zip(rows, long, strict=True):
            yield _in_columns(row, widths) if fits else _listed(names, row, width)
            for text in filter(None, texts):
                yield _under(Text(), text, width, len(GAP))


def _longest(text: Text) -> int:
    return max(map(cell_len, text.plain.split("\n")))


def _word(text: Text) -> int:
    return max(map(cell_len, WORD.findall(text.plain)), default=0)


def _shared(least: Sequence[int], most: Sequence[int], room: int) -> list[int]:
    """A width for each column between its least and most, the widest columns shortened first."""
    level = max(most)
    while sum(widths := [max(low, min(high, level)) for low, high in zip(least, most, strict=True)]) > room and level:
        level -= 1
    return widths


def _folded(text: Text, width: int) -> list[Text]:
    """The lines of a text, broken between words; a longer word stays whole."""
    found: list[Text] = []
    for line in text.split("\n", allow_blank=True):
        breaks = [0]
        for word in WORD.finditer(line.plain):
            if cell_len(line.plain[breaks[-1] : word.end()]) > width and word.start() > breaks[-1]:
                breaks.append(word.start())
        found += line.divide(breaks[1:])
    for line in found:
        line.rstrip()
    return found


def _in_columns(cells: Sequence[Text], widths: Sequence[int], head: bool = False) -> Text:
    """One row, each cell in its width. head: the names of the columns, aligned at the bottom."""
    columns = [_folded(text, width) for text, width in zip(cells, widths, strict=True)]
    count = max(map(len, columns))
    for column in columns:
        missing = [Text()] * (count - len(column))
        column[:] = [*missing, *column] if head else [*column, *missing]
    lines = []
    for row in zip(*columns, strict=True):
        padded = (text + Text(" " * (width - text.cell_len)) for text, width in zip(row, widths, strict=True))
        lines.append(Text(GAP).join(padded))
        lines[-1].rstrip()
    found = _lines(lines)
    found.stylize("bold" if head else "")
    return found


def _listed(names: Sequence[Text], row: Sequence[Text], width: int) -> Text:
    """One row as a list, its first cell as the title."""
    row[0].stylize("bold")
    indent = max(map(_longest, names)) + 2 * len(GAP)
    pairs = zip(names[1:], row[1:], strict=True)
    return _lines([row[0], *(_under(Text(GAP) + name, text, width, indent) for name, text in pairs if text)])


def _under(head: Text, text: Text, width: int, indent: int) -> Text:
    """A text after its head, folded: all its lines begin in the same column."""
    first, *others = _folded(text, max(width - indent, SHORTEST))
    begun = head + Text(" " * (indent - head.cell_len)) + first
    return _lines([begun, *(Text(" " * indent) + line for line in others)])


def _lines(lines: Sequence[Text]) -> Text:
    """Join lines into one text that is not broken again."""
    return Text("\n", no_wrap=True, overflow="ignore").join(lines)


def show_rows(console: Console, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table; many rows of ASCII that need no folding are printed at once, for speed."""
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    simple = all(SIMPLE.fullmatch(text) for row in rows for text in row)
    if len(rows) > MANY and simple and sum(widths) + len(GAP) * len(widths) <= console.width:
        console.print(_in_columns(list(map(Text, columns)), widths, head=True))
        lines = (GAP.join(map(str.ljust, row, widths)).rstrip() for row in rows)
        say(console, "\n".join(lines))
        return
    table = Table(*columns)
    for row in rows:
        table.add_row(*map(escape, row))
    console.print(table)


def cell(text: str) -> str:
    """Text for a cell of a table, with markup and control characters escaped."""
    return escape(visible(text))


def say(console: Console, text: str) -> None:
    """Print text verbatim: without markup, colours or wrapping."""
    console.print(visible_lines(text), markup=False, highlight=False, soft_wrap=True)


def say_under(console: Console, head: str | Text, text: str) -> None:
    """Print a text after its head; on a terminal folded, with a hanging indent."""
    begun = head if isinstance(head, Text) else Text(visible_lines(head))
    line = Text(visible_lines(text))
    if console.is_terminal:
        console.print(_under(begun, line, console.width, begun.cell_len))
    else:
        console.print(begun + line, soft_wrap=True)


def say_json(value: Any) -> None:
    """Print data as JSON; of its non-ASCII characters only hidden ones are escaped."""
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False)
    print(NOT_ASCII.sub(lambda found: json.dumps(found[0])[1:-1] if hidden(found[0]) else found[0], text))
