"""`normbench report`: the static site."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from normbench.web import report


def run(results: Path, output: Path | None, console: Console) -> int:
    """Write the site and say where; what is damaged is left out of it, with a line."""
    written = report.build(results, output)
    for note in written.notes:
        console.print(f"  note: {note}", markup=False, highlight=False, soft_wrap=True)
    console.print(f"report  {written.index}", markup=False, highlight=False, soft_wrap=True)
    return 0
