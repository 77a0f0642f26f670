"""`normbench show RUN`: one run, raw or published."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console

from normbench.commands.terminal import say, say_json
from normbench.errors import NormbenchError, unknown
from normbench.runs import curve_file, find, lookup, store
from normbench.runs.damaged import Damaged
from normbench.runs.record import curve_sha256


@dataclass(frozen=True)
class Known:
    """A run by id, wherever it was found."""

    id: str
    source: Path
    labels: dict[str, Any]
    config: dict[str, Any]
    state: str
    steps: int
    reason: str
    records: list[dict[str, Any]]
    environment: dict[str, Any]
    was: dict[str, Any]
    log: Path | None = None  # of a run that printed something, or failed


def show(name: str, results: Path, as_json: bool, console: Console) -> int:
    """Labels, configuration, environment and last records of one run; `name` is an id, the start of one, or a path."""
    run = known(name, results)
    content = {
        "id": run.id,
        "status": run.state,
        "reason": run.reason,
        **({"log": str(run.log)} if run.log else {}),
        "steps": run.steps,
        **run.labels,
        "source": str(run.source),
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
    """The run called `name`: in the raw store (where finished, damaged or going on), else in a published pack."""
    name = Path(name).name[-12:] if "/" in name else name
    raw = lookup.below(results / "runs")
    packed, notes = find.in_packs(results)
    published = {run.id: run for run in packed}
    ids = raw.ids() | published.keys()
    hits = sorted(i for i in ids if i.startswith(name)) if name else []
    if not hits and notes:
        raise NormbenchError(notes[0])  # it may be in there
    if not hits:
        raise unknown(f"no run {name} below {results}.", name, sorted(ids), "normbench status")
    if len(hits) > 1:
        raise NormbenchError(f"{name} is the start of {len(hits)} runs: {', '.join(hits[:5])}.")
    if hits[0] in published:
        run, path = published[hits[0]].whole(), published[hits[0]].path
        labels = {
            "experiment": run.experiment,
            "arm": run.arm,
            "seed": run.seed,
            "fidelity": run.fidelity,
            "control": run.control,
            "axes": dict(run.axes),
        }
        return Known(
            run.id,
            path,
            labels,
            dict(run.config),
            run.status,
            run.steps,
            run.reason,
            [dict(r) for r in run.records],
            dict(run.environment),
            dict(run.was),
        )
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
        raise NormbenchError(f"{stored.path}: {damage}. Delete it to train this run again.") from None
    labels = {key: content.get(key) for key in ("experiment", "arm", "fidelity", "control", "axes")}
    steps = int(stored.status.get("steps", 0))
    return Known(
        stored.id,
        stored.path,
        {**labels, "seed": stored.seed},
        content["config"],
        stored.state,
        steps,
        str(stored.status.get("reason", "")),
        records,
        environment,
        was,
        stored.log,
    )
