"""`normbench report`."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Annotated

from normbench.commands import format, terminal
from normbench.commands.options import ConfigDir, Json, Results, option
from normbench.files.reading import place

EPILOG = """examples:
  normbench report                                      write results/report/index.html; open it in a browser
  normbench report --output public                      for a web server: plain files, no external request

--json prints, shortened:
  {"index": "results/report/index.html", "notes": []}
"""


def command(
    results: Results,
    config_dir: ConfigDir = None,
    output: Annotated[
        Path | None, option("where to write it", "DIR", parser=place, show_default="RESULTS/report")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write the site and print where it is; damaged artifacts are left out, with a note."""
    from normbench.web import report

    gc.disable()  # to look for cycles among a million records takes a quarter of the time
    try:
        written = report.build(results, output, config_dir)
    finally:
        gc.freeze()  # what is left goes with the process
        gc.enable()
    notes = [*written.notes, *filter(None, [format.where_published(results)])]
    if as_json:
        return terminal.say_json({"index": str(written.index), "notes": notes})
    console = terminal.console()
    for note in notes:
        terminal.say(console, f"  note: {note}")
    terminal.say(console, f"report  {written.index}")
