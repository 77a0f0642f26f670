"""The one run that somebody names, raw or published."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from normbench.errors import NormbenchError
from normbench.runs import curve_file, find, store
from normbench.runs.damaged import Damaged
from normbench.runs.record import RunRecord, begun_by

LABELS = ("experiment", "arm", "seed", "fidelity", "control", "axes")


@dataclass(frozen=True)
class NamedRun:
    """A run and where it was found: its directory, in any state, or the pack that has it."""

    run: RunRecord
    source: Path
    log: Path | None = None  # of a run that printed something, or failed


def resolve(name: str, results: Path) -> NamedRun:
    """The run called `name`: the longest finished one, published or raw, else what is there, damaged or going on."""
    asked, name = name or "''", Path(name).name[-12:] if "/" in name else name
    raw = store.directories(results / "runs")
    packed, notes = find.in_packs(results)
    published = {run.id: run for run in packed}
    run_id = begun_by(name, [*(run.id for run in raw), *published])
    if not run_id and notes:
        raise NormbenchError(notes[0], code=4)  # it may be in there
    if not run_id:
        raise NormbenchError(f"no run {asked} below {results}. (normbench status)")
    copies = [*store.by_id([run_id], raw)]
    if packed_run := published.get(run_id):
        lengths = {run_id: packed_run.head.steps}
        if not any(copy.state in store.FINISHED and find.is_longer(copy, lengths) for copy in copies[-1:]):
            return NamedRun(packed_run.whole(), packed_run.path)
    return _raw(copies[-1])


def _raw(stored: store.Stored) -> NamedRun:
    try:
        if stored.reason:
            raise Damaged(stored.reason)
        records = curve_file.checked(stored.path / "curve.jsonl", stored.content)
        if not records and stored.state in store.FINISHED:
            raise Damaged("it has no records")
    except Damaged as damage:
        raise NormbenchError(f"{stored.path}: {damage}. Delete it to train this run again.", code=4) from None
    return NamedRun(replace(store.head(stored), records=records), stored.path, stored.log)
