"""What a command prints to."""

from __future__ import annotations

from rich.console import Console


def console() -> Console:
    """The terminal; a file or a pipe is wide enough for the tables."""
    found = Console()
    return found if found.is_terminal else Console(width=140)


def say(console: Console, text: str) -> None:
    """Text as it is: no markup, no colours, no lines but its own."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)
