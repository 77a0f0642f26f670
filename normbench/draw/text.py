"""Text in tables, figures and pages: invisible characters, and those that turn the direction, become U+FFFD."""

from __future__ import annotations

import unicodedata
from typing import Any

# control, format (bidirectional overrides among them), private, lone surrogates, unassigned
HIDDEN = {"Cc", "Cf", "Co", "Cs", "Cn"}


def hidden(character: str) -> bool:
    """Whether a character is invisible, or changes the display of others."""
    return unicodedata.category(character) in HIDDEN


def visible(value: Any) -> Any:
    """`value`, a string without hidden characters; line breaks and tabs become spaces. Others as they are."""
    if not isinstance(value, str) or value.isprintable():  # as nearly every text: then nothing in it is hidden
        return value
    one_line = " ".join(value.split()) if any(c in value for c in "\n\t\r") else value
    return "".join("\ufffd" if hidden(c) else c for c in one_line)


def visible_lines(text: str) -> str:
    """Text of several lines without hidden characters, and none that steer a terminal."""
    return "\n".join(visible(line) for line in text.split("\n"))


def minus(text: str) -> str:
    """The text of numbers with true minus signs."""
    return text.replace("-", "\N{MINUS SIGN}")


def show(number: float | None) -> str:
    """Three digits, all of those before the point, with a true minus sign; an en dash for nothing."""
    if number is None:
        return "–"
    return minus(f"{number:{'.0f' if 1000 <= abs(number) < 1e6 else '.3g'}}")
