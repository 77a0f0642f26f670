"""The one run that somebody names, raw or published."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from normbench.errors import BadInput, Failed
from normbench.runs import curve_file, find, store
from normbench.runs.damaged import Damaged
from normbench.runs.record import RunRecord, begun_by

LABELS = ("experiment", "arm", "seed", "fidelity", "control", "axes")


def resolve(name: str, results: Path) -> RunRecord:
    """The run called `name`: the longest finished one, published or raw, else what is there, damaged or going on."""
    asked, name = name or "''", Path(name).name[-12:] if "/" in name else name
    raw = store.directories(results / "runs")
    packed, notes = find.in_packs(results)
    published = {run.id: run for run in packed}
    run_id = begun_by(name, [*(run.id for run in raw), *published])
    if not run_id and notes:
        raise Failed(notes[0])  # it may be in there
    if not run_id:
        raise BadInput(f"no run {asked} below {results}. (normbench status)")
    copies = [*store.by_id([run_id], raw)]
    if packed_run := published.get(run_id):
        longer = (copy for copy in copies[-1:] if copy.content.get("steps", 0) > packed_run.head.steps)
        if not any(copy.state in store.FINISHED for copy in longer):
            return packed_run.whole()
    return _raw(copies[-1])


def ours(name: str, results: Path) -> RunRecord:
    """As `resolve`; NormbenchError for a run of another program, of which there is a log alone."""
    found = resolve(name, results)
    if found.logged:
        raise BadInput(f"run {found.id} was made by another program: there is its log alone ({found.experiment}).")
    return found


def _raw(stored: store.Stored) -> RunRecord:
    try:
        if stored.reason:
            raise Damaged(stored.reason)
        records = curve_file.checked(stored.path / "curve.jsonl", stored.content)
        if not records and stored.state in store.FINISHED:
            raise Damaged("it has no records")
    except Damaged as damage:
        raise Failed(f"{stored.path}: {damage}. Delete it to train this run again.") from None
    return replace(store.head(stored), records=records)
