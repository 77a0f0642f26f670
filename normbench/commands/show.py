"""`normbench show RUN`: one run, raw or published."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import yaml
from rich.console import Console

from normbench.commands.terminal import say, say_json
from normbench.errors import NormbenchError, unknown
from normbench.runs import curve_file, find, lookup, store
from normbench.runs.damaged import Damaged
from normbench.runs.record import RunRecord, curve_sha256

LABELS = ("experiment", "arm", "seed", "fidelity", "control", "axes")


@dataclass(frozen=True)
class Known:
    """A run and where it was found: its directory, in any state, or the pack that has it."""

    run: RunRecord
    source: Path
    log: Path | None = None  # of a run that printed something, or failed


def show(name: str, results: Path, as_json: bool, console: Console) -> int:
    """Labels, configuration, environment and last records of one run; `name` is an id, the start of one, or a path."""
    found = known(name, results)
    run = found.run
    content = {
        "id": run.id,
        "status": run.status,
        "reason": run.reason,
        **({"log": str(found.log)} if found.log else {}),
        "steps": run.steps,
        **{label: getattr(run, label) for label in LABELS},
        "source": str(found.source),
        "config": run.config,
        "environment": run.environment,
        "records": len(run.records),
        "curve_sha256": curve_sha256(run.records),
        **({"was": run.was} if run.was else {}),
        "last": [r for r in run.records if r["epoch"] == run.records[-1]["epoch"]],  # none so far: []
    }
    if as_json:
        say_json(content)
        return 0
    say(console, yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120))
    return 0


def known(name: str, results: Path) -> Known:
    """The run called `name`: in a published pack, else in the raw store, where finished, damaged or going on."""
    name = Path(name).name[-12:] if "/" in name else name
    raw = lookup.below(results / "runs")
    packed, notes = find.in_packs(results)
    published = {run.id: run for run in packed}
    ids = raw.ids() | published.keys()
    hits = sorted(i for i in ids if i.startswith(name)) if name else []
    if not hits and notes:
        raise NormbenchError(notes[0], code=4)  # it may be in there
    if not hits:
        raise unknown(f"no run {name} below {results}.", name, sorted(ids), "normbench status")
    if len(hits) > 1:
        raise NormbenchError(f"{name} is the start of {len(hits)} runs: {', '.join(hits[:5])}.")
    if hits[0] in published:
        return Known(published[hits[0]].whole(), published[hits[0]].path)
    # a damaged copy hides no whole one
    return _raw(sorted(raw.stored(hits), key=lambda stored: not stored.reason)[-1])


def _raw(stored: store.Stored) -> Known:
    try:
        if stored.reason:
            raise Damaged(stored.reason)
        content = store.read_config(stored.path)
        records, was = curve_file.checked(stored.path / "curve.jsonl", stored.status)
        environment = store.read_environment(stored.path)
        if not records and stored.state in store.FINISHED:
            raise Damaged("it has no records")
    except Damaged as damage:
        raise NormbenchError(f"{stored.path}: {damage}. Delete it to train this run again.", code=4) from None
    labels = {key: content.get(key) for key in LABELS if key != "seed"}
    run = store.bare(stored, {**stored.status, "status": stored.state}, labels, content["config"])
    return Known(replace(run, records=records, environment=environment, was=was), stored.path, stored.log)
