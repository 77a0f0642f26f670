"""`normbench check`: checks that everything stored is intact and follows from its sources."""

from __future__ import annotations

import json
from pathlib import Path

from rich.console import Console

from normbench.check import Check
from normbench.check.ids import Ids
from normbench.commands import format
from normbench.commands.terminal import say
from normbench.errors import NormbenchError


def run(results: Path, as_json: bool, repair: bool, config_dir: Path | None, console: Console) -> int:
    """Print a line for each finding; exit code 0, or 4 if something is damaged."""
    if not results.is_dir():
        raise NormbenchError(f"{results} is not there. Choose another place with --results or NORMBENCH_RESULTS.")
    check = Check(results, Ids(config_dir, results))
    found = []
    for finding in check.findings(repair):
        found.append(finding)
        if not as_json:
            say(console, f"{finding.kind:<10} {finding.place}: {finding.text}")
    damaged = sum(not finding.harmless for finding in found)
    if as_json:
        entries = [{"kind": f.kind, "place": str(f.place), "text": f.text, "harmless": f.harmless} for f in found]
        print(json.dumps({"whole": not damaged, "findings": entries, "checked": check.seen}, indent=1))
    else:
        counts = ", ".join(format.plural(count, what.removesuffix("s")) for what, count in check.seen.items())
        notes = format.plural(len(found) - damaged, "note")
        answer = f"{damaged} damaged" if damaged else "whole"
        say(console, f"{answer}{f', {notes}' if len(found) > damaged else ''}: {counts}")
    return 4 if damaged else 0
