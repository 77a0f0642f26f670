"""The steps that all compared runs have: a curve that was logged half as often, or stopped early, is not favoured."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress

from normbench.compare.difference import LEAST
from normbench.errors import BadInput
from normbench.judge.declared import at_best
from normbench.papers.claims import COMMON, Part
from normbench.runs.curve import Curve
from normbench.runs.run import Run
from normbench.stats.series import series

Points = dict[float, float]  # value by step


@dataclass(frozen=True)
class AtCommonSteps:
    """The runs as if they had been logged at the common steps alone; `end`: the last of these, `last`: of any run;
    `points`: how many they are, `most`: of any run up to the end. `short`: where the common steps end far before most
    runs do, their end, the median length, and the shortest run with its length, as texts; else empty.
    """

    runs: Sequence[Run]
    end: float = 0
    last: float = 0
    points: int = 0
    most: int = 0
    short: tuple[str, ...] = ()


def at_common_steps(part: Part, runs: Sequence[Run], length: str) -> AtCommonSteps:
    """The runs at the steps that all have that did not diverge; none of them where there is no such step.

    At the best of what is monitored the steps are those of the monitored series. Raises NormbenchError where ends
    differ and `length` is not `common`, and for a negative number on a logarithm.
    """
    end = part.endpoint
    if end.kind == "value":
        return AtCommonSteps(runs)
    curves = {run.id: _curve(part, run) for run in runs}
    _check_logarithm(part, runs, curves)
    if end.kind == "time_to_level" and part.than is not None:  # a run may end as soon as it has reached its level
        return AtCommonSteps(runs)
    split, metric = end.split, end.metric
    if at_best(end):
        split, metric = (runs[0].monitor[key] for key in ("split", "metric"))
        curves = {run.id: dict(series(run, split, "eval", metric, x="step")) for run in runs}
    logged = [run for run in runs if curves[run.id]]
    whole = [run for run in logged if run.status != "diverged"] or logged
    if not whole:
        return AtCommonSteps(runs)  # without a record of it
    ends = {run.id: max(curves[run.id]) for run in whole}
    if length != COMMON and len({*ends.values()}) > 1 and any(run.status != "diverged" for run in whole):
        _refuse_ends(part, whole, ends, f"{split} {metric}")
    steps = set.intersection(*({*curves[run.id]} for run in whole))
    if not steps:
        return AtCommonSteps([])
    at = max(steps)
    cut_runs = []
    for run in runs:
        curve = curves[run.id]
        # a longer log that is cut has no end yet, and so has not diverged; but what diverged reaches no number
        cut = length == COMMON and part.than is None and math.isfinite(curve.get(at, math.nan)) and at < max(curve)
        status, reason = ("done", "") if cut else (run.status, run.reason)
        records = _only(run, split, metric, end.metric, steps)
        cut_runs.append(replace(run, records=records, steps=int(at), status=status, reason=reason))
    most = max(sum(step <= at for step in curves[run.id]) for run in logged)
    median = statistics.median(ends.values())
    shortest = min(whole, key=lambda run: ends[run.id])
    is_short = length == COMMON and at < LEAST * median
    short = (f"{at:g}", f"{median:g}", named(shortest), f"{ends[shortest.id]:g}") if is_short else ()
    return AtCommonSteps(cut_runs, at, max(max(curves[run.id]) for run in logged), len(steps), most, short)


def _curve(part: Part, run: Run) -> Points:
    """The compared series, of the variants that the part's cells name."""
    end = part.endpoint
    variants = {cell.get("variant", end.variant) for _, cell in part.contrast if run.matches(cell)}
    curves = [dict(series(run, end.split, end.mode, end.metric, variant, x="step")) for variant in variants]
    return {step: value for step, value in curves[0].items() if all(step in curve for curve in curves)}


def _check_logarithm(part: Part, runs: Sequence[Run], curves: dict[str, Points]) -> None:
    end, timed = part.endpoint, part.endpoint.kind == "time_to_level"
    if not (end.on_log if timed else part.scale == "log" or (end.kind == "area" and end.on_log)):
        return
    for run in runs:
        if negative := next((value for value in curves[run.id].values() if value < 0), None):
            raise BadInput(
                f"part '{part.id}': {end.split} {end.metric} is {negative:g} in {named(run)}, and a negative number "
                "has no logarithm: scale: linear, and no log: true in the map of the import."
            )


def _refuse_ends(part: Part, runs: Sequence[Run], ends: dict[str, float], what: str) -> None:
    first, last = (pick(runs, key=lambda run: ends[run.id]) for pick in (min, max))
    raise BadInput(
        f"part '{part.id}': {what} ends at step {ends[first.id]:g} in {named(first)}, at {ends[last.id]:g} in "
        f"{named(last)}. `length: common` in the claims, --length common or the map of the import compares up to the "
        "last step that all have; where batch sizes differ, import with epochs as the clock."
    )


def _only(run: Run, split: str, metric: str, compared: str, steps: set[float]) -> Curve:
    """The records of the series at these steps; of what is compared elsewhere all that are not later."""
    blocks = []
    for block in run.records.blocks:
        of_steps = block.split == split and metric in block.columns
        if of_steps or compared in block.columns:
            kept = [step in steps if of_steps else step <= max(steps) for step in block.columns["step"]]
            columns = {key: [*compress(values, kept)] for key, values in block.columns.items()}
            blocks.append({**block.place, "columns": columns})
    return Curve.of_columns(blocks)


def named(run: Run) -> str:
    """`ln seed 3`."""
    return f"{run.arm} seed {run.seed}"
