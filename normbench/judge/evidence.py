"""One part of a claim against logged runs.

Runs are compared at the steps that all of them have: a curve that was logged half as often, or stopped early, is not
better for it. Effects are paired by seed where all seeds of the smaller cell are shared, else the means of all runs are
compared (Welch 1947).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from normbench.compare import metrics
from normbench.errors import NormbenchError, unknown
from normbench.papers import rules
from normbench.papers.claims import COMMON, Part
from normbench.papers.endpoints import outcome_of, paired_runs, sides_of
from normbench.papers.parts import Observed, gather
from normbench.runs.curve import Curve
from normbench.runs.record import RunRecord
from normbench.stats.series import CLOCKS, series
from normbench.stats.statistics import Interval, welch
from normbench.stored import IMPORT

Groups = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Unpaired(Observed):
    """Of two cells whose seeds are not shared: `groups` has the numbers of each, on the part's scale and times its
    weight."""

    groups: Groups = ()
    lacks: bool = False  # a run has no number

    @property
    def whole(self) -> bool:
        return not self.lacks

    @property
    def flat(self) -> bool:
        if self.lacks:
            return False
        spread = max(max(group) - min(group) for group in self.groups)
        return spread <= 1e-12 * max(abs(number) for group in self.groups for number in group)

    @property
    def effect(self) -> float | None:
        return None if self.lacks else welch(self.groups[0], [-x for x in self.groups[1]]).mean

    def interval(self, level: float) -> Interval | None:
        if self.lacks or self.flat:
            return None
        return welch(self.groups[0], [-x for x in self.groups[1]], level).interval

    def prediction(self, level: float) -> Interval | None:
        return None

    @property
    def sd(self) -> float | None:
        return None


def observe(part: Part, runs: Sequence[RunRecord], length: str, least: int, alone: Sequence[int] | None) -> Observed:
    """The part against runs of one control setting; of them only the seeds `alone`, where these are given.

    Raises NormbenchError for what the logs do not declare, or declare otherwise, and for ends that differ.
    """
    counted = [run for run in runs if alone is None or run.seed in alone]
    cells, shared = paired_runs(part, counted)
    if part.kind == "exact" or not all(cells):
        return gather(part, counted, least=least, delta=_delta(part))
    compared = [*{run.id: run for cell in cells for run in cell.values()}.values()]
    ids = tuple(run.id for run in compared)
    part = declared(part, compared)
    at_common = _at_common_steps(part, compared, length)
    if not at_common:
        return Observed(part, rules.NOT_DECIDABLE, "no common steps", runs=ids)
    if len(shared) == min(map(len, cells)):
        return gather(part, at_common, shared, least, _delta(part))
    if sorted(weight for weight, _ in part.contrast) != [-1, 1] or part.test == "sign" or part.endpoint.of:
        return Observed(part, rules.NOT_DECIDABLE, "no pairs", runs=ids)
    return _unpaired(part, paired_runs(part, at_common)[0], least)


def _delta(part: Part) -> float | None:
    """The smallest effect that the part declares: those of `rules.yaml` are of this project's data."""
    return None if part.delta is None else part.delta["is"]


def _unpaired(part: Part, cells: Sequence[Mapping[int, RunRecord]], least: int) -> Observed:
    """All runs of both cells, each cell by itself."""
    rows = []  # of each cell the outcomes
    for (_, cell), found in zip(part.contrast, cells, strict=True):
        variant = cell.get("variant", part.endpoint.variant)
        rows.append({run.id: outcome_of(part.endpoint, run, variant) for run in found.values()})
    runs = tuple(run for row in rows for run in row)
    if lacking := sorted(run for row in rows for run, outcome in row.items() if outcome is None):
        return Observed(part, rules.NOT_DECIDABLE, "no record", tuple(lacking), runs=runs)
    seen = [[outcome for outcome in row.values() if outcome is not None] for row in rows]
    groups, values = [], []
    for term, outcomes in zip(part.contrast, seen, strict=True):
        sides = (sides_of(replace(part, contrast=(term,)), [outcome]) for outcome in outcomes)
        groups.append(tuple(side[0] - side[1] for side in sides if side is not None))
        values.append({"cell": dict(term[1]), "weight": term[0], "values": [*map(str, outcomes)]})
    timed = part.endpoint.kind == "time_to_level"
    every = [outcome for outcomes in seen for outcome in outcomes]
    return Unpaired(
        part=part,
        complete=min(map(len, cells)) >= max(least, rules.FEWEST),
        delta=_delta(part),
        seeds=tuple(sorted({seed for cell in cells for seed in cell})),
        least=least,
        cells=tuple(values),
        runs=runs,
        diverged=sum(outcome.diverged for outcome in every),
        censored=sum(outcome.value is None for outcome in every) if timed else 0,
        groups=tuple(groups),
        lacks=sum(map(len, groups)) < len(runs),
    )


# --- what the logs declare -------------------------------------------------------------------------------------------


def declared(part: Part, runs: Sequence[RunRecord]) -> Part:
    """The part with what the runs declare of its metric. NormbenchError where they declare otherwise, or nothing."""
    end = part.endpoint
    if end.kind == "value":
        return part
    where = f"part '{part.id}': "
    logged = {metric.name: metric for metric in metrics.logged([*runs]).get(end.split, [])}
    if end.mode == "eval" and end.metric not in logged and not any(run.status == "diverged" for run in runs):
        raise unknown(f"{where}no run has the metric {end.metric} of {end.split}.", end.metric, logged)
    known = [metric for run in runs for metric in metrics.logged([run]).get(end.split, []) if metric.name == end.metric]
    for metric in known:
        if metric.better not in ("", end.better):
            raise NormbenchError(
                f"{where}better: {end.better}, but the runs declare that of {end.metric} {metric.better} is better."
            )
    if part.scale == "percent" and not all(metric.share for metric in known):
        raise NormbenchError(
            f"{where}scale: percent needs a share, and {end.metric} is not declared as one. In the map of the import, "
            "unit: fraction; values that are percentages already have scale: linear."
        )
    clocks = {_clocks(run) for run in runs}
    clock = end.clock if end.kind == "time_to_level" else "epoch" if type(end.epoch) is int else ""
    if clock and not all(clock in own for own in clocks):
        has = " or ".join(one for one in CLOCKS if all(one in own for own in clocks)) or "none that all have"
        raise NormbenchError(f"{where}it needs the clock {clock}, which not all runs declare. Their clocks: {has}.")
    if len({"step" in own for own in clocks}) > 1:
        raise NormbenchError(f"{where}some runs count updates, some epochs alone: they have no common steps.")
    if end.kind == "chosen" and end.epoch in ("best", "own") and not all(run.monitor["metric"] for run in runs):
        raise NormbenchError(f"{where}epoch: {end.epoch} needs `monitor` in the map of the import.")
    logs = {_facts(run, end.metric).get("log") for run in runs if IMPORT in run.config}
    if len(logs) > 1:
        raise NormbenchError(f"{where}some maps say log: true of {end.metric}, some do not.")
    return replace(part, endpoint=replace(end, log=bool(logs.pop()) if logs else None, trapezoid=end.kind == "area"))


def _clocks(run: RunRecord) -> tuple[str, ...]:
    return tuple(run.config[IMPORT]["clocks"]) if IMPORT in run.config else tuple(CLOCKS)


def _facts(run: RunRecord, metric: str) -> Mapping[str, Any]:
    facts: Mapping[str, Any] = run.config[IMPORT]["metrics"].get(metric, {})
    return facts


# --- the steps that all have -----------------------------------------------------------------------------------------


def _at_common_steps(part: Part, runs: Sequence[RunRecord], length: str) -> list[RunRecord]:
    """The runs as if they had been logged at the steps alone that all have that did not diverge; none where there is
    no such step.
    """
    end = part.endpoint
    if end.kind == "value":
        return [*runs]
    names = {end.metric}
    curves = {run.id: _curve(part, run) for run in runs}
    if end.kind == "chosen" and end.epoch in ("best", "own"):  # at the best of what is monitored
        for run in runs:
            names.add(run.monitor["metric"])
            curves[run.id] = {step: value for step, value in curves[run.id].items() if step in _monitored(run)}
    logged = [run for run in runs if curves[run.id]]
    whole = [run for run in logged if run.status != "diverged"] or logged
    if not whole:
        return [*runs]  # without a record of it
    ends = {run.id: max(curves[run.id]) for run in whole}
    if length != COMMON and len({*ends.values()}) > 1 and any(run.status != "diverged" for run in whole):
        first, last = (pick(whole, key=lambda run: ends[run.id]) for pick in (min, max))
        raise NormbenchError(
            f"part '{part.id}': {end.split} {end.metric} ends at step {ends[first.id]:g} in {_named(first)}, at "
            f"{ends[last.id]:g} in {_named(last)}. length: common, in the claims or in the map of the import, compares "
            "up to the last step that all have."
        )
    steps = set.intersection(*({*curves[run.id]} for run in whole))
    if not steps:
        return []
    found = []
    for run in runs:
        own = curves[run.id]
        cut = own and max(steps) < max(own) and math.isfinite(own.get(max(steps), math.nan))  # before it diverged
        lost = run.status == "diverged" and not cut
        kept = {step for step in own if step <= max(steps)} if lost else steps
        status, reason = ("diverged", run.reason) if lost else ("done", "")
        found.append(replace(run, records=_only(run, names, kept), steps=int(max(steps)), status=status, reason=reason))
    return found


def _curve(part: Part, run: RunRecord) -> dict[float, float]:
    """The compared series by step, of the variants that the part's cells name."""
    end = part.endpoint
    variants = {cell.get("variant", end.variant) for _, cell in part.contrast if run.matches(cell)}
    curves = [dict(series(run, end.split, end.mode, end.metric, variant, x="step")) for variant in variants]
    return {step: value for step, value in curves[0].items() if all(step in curve for curve in curves)}


def _monitored(run: RunRecord) -> set[float]:
    return {step for step, _ in series(run, run.monitor["split"], "eval", run.monitor["metric"], x="step")}


def _only(run: RunRecord, names: set[str], steps: set[float]) -> Curve:
    """The records of these metrics at these steps."""
    blocks = []
    for block in run.records.blocks:
        if names & block.columns.keys():
            kept = [place for place, step in enumerate(block.columns["step"]) if step in steps]
            columns = {key: [values[place] for place in kept] for key, values in block.columns.items()}
            blocks.append({**block.place, "columns": columns})
    return Curve.of_columns(blocks)


def _named(run: RunRecord) -> str:
    return f"{run.arm} seed {run.seed}"
