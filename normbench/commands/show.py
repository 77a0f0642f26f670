"""`normbench show RUN`: prints one run, raw or published."""

from __future__ import annotations

from pathlib import Path

import yaml
from rich.console import Console

from normbench.commands.terminal import say, say_json
from normbench.runs.record import curve_sha256
from normbench.runs.resolve import LABELS, resolve


def show(name: str, results: Path, as_json: bool, console: Console) -> int:
    """Print labels, configuration, environment and last records of a run. name: an id, the start of one, or a path."""
    found = resolve(name, results)
    run = found.run
    content = {
        "id": run.id,
        "status": run.status,
        "reason": run.reason,
        **({"log": str(found.log)} if found.log else {}),
        "steps": run.steps,
        **({"began": run.began} if run.began else {}),
        **{label: getattr(run, label) for label in LABELS},
        "source": str(found.source),
        "config": run.config,
        "environment": run.environment,
        "records": len(run.records),
        "curve_sha256": curve_sha256(run.records),
        **({"was": run.was} if run.was else {}),
        "last": [r for r in run.records if r["epoch"] == run.records[-1]["epoch"]],  # [] without records
    }
    if as_json:
        say_json(content)
        return 0
    say(console, yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120))
    return 0
