"""`normbench history`."""

from __future__ import annotations

from typing import Annotated

from normbench import runs
from normbench.commands import terminal
from normbench.commands.options import ConfigDir, Json, Results, argument
from normbench.errors import NormbenchError, unknown
from normbench.papers import artifact as artifacts
from normbench.papers import history

EPILOG = """examples:
  normbench history BLN-12                              all its verdicts, with the rules of each
  normbench history                                     all claims
"""


def command(
    results: Results,
    claim: Annotated[str | None, argument("a claim's id", show_default="all claims")] = None,
    config_dir: ConfigDir = None,
    as_json: Json = False,
) -> None:
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
        return terminal.say_json(found)
    console = terminal.console()
    if not found:
        return terminal.say(console, f"no verdict {f'of {claim} ' if claim else ''}is recorded below {results}")
    table = terminal.Table("date", "claim", "fidelity", "before", "after", "n", "what changed", whole=("date", "claim"))
    for entry in found:
        before, after = entry["before"], entry["after"]
        word = before["verdict"] if before else "not judged"
        row = [entry["date"], entry["claim"], entry["fidelity"], word, after["verdict"], str(after["n"])]
        table.add_row(*map(terminal.cell, [*row, ", ".join(entry["cause"])]))
    console.print(table)
