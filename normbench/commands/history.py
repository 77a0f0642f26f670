"""`normbench history`: the changes of each verdict."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.markup import escape

from normbench import runs
from normbench.commands.terminal import Table, say, say_json
from normbench.errors import NormbenchError, unknown
from normbench.papers import artifact as artifacts
from normbench.papers import history


def show(claim: str | None, results: Path, as_json: bool, config_dir: Path | None, console: Console) -> int:
    """Print the changes of one claim's verdict, or of all."""
    try:
        found = [*history.read(results), *history.read(runs.own(results))]
    except NormbenchError as error:  # a damaged line
        raise NormbenchError(str(error), code=4) from None
    if claim is not None:
        ids = {c.id for name in artifacts.ids(config_dir) for c in artifacts.load(name, config_dir).claims}
        ids |= {entry["claim"] for entry in found}
        if claim not in ids:
            raise unknown(f"{claim} is not a claim.", claim, sorted(ids))
        found = [entry for entry in found if entry["claim"] == claim]
    if as_json:
        say_json(found)
        return 0
    if not found:
        say(console, f"no verdict {f'of {claim} ' if claim else ''}is recorded below {results}")
        return 0
    table = Table("date", "claim", "fidelity", "before", "after", "n", "what changed", whole=("date", "claim"))
    for entry in found:
        before, after = entry["before"], entry["after"]
        word = before["verdict"] if before else "not judged"
        row = [entry["date"], entry["claim"], entry["fidelity"], word, after["verdict"], str(after["n"])]
        table.add_row(*map(escape, [*row, ", ".join(entry["cause"])]))
    console.print(table)
    return 0
