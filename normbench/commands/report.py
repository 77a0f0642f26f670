"""`normbench report`: the static site."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from normbench.commands.terminal import say
from normbench.web import report


def run(results: Path, output: Path | None, console: Console) -> int:
    """Write the site and say where; what is damaged is left out of it, with a line."""
    written = report.build(results, output)
    for note in written.notes:
        say(console, f"  note: {note}")
    say(console, f"report  {written.index}")
    return 0
