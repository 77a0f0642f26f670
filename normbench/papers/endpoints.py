"""The endpoints of single runs for a part of a claim: a number each, or bounds where a run has no number."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from normbench.draw.text import show
from normbench.errors import BadInput
from normbench.papers.claims import BEST, Cell, Endpoint, Level, Part, format_cell
from normbench.runs.run import Run
from normbench.stats.effects import Bounds
from normbench.stats.series import (
    Reached,
    Series,
    area,
    at_epoch,
    final,
    gain,
    level_at_share,
    log_floored,
    over_sites,
    past_best,
    series,
    time_to_level,
    trapezoid,
)

_SCALES: Mapping[str, Callable[[float], float]] = {
    "log": log_floored,
    "percent": lambda value: 100 * value,
    "linear": float,
}


@dataclass(frozen=True)
class Outcome:
    """One run's endpoint; `value` None is worse than any number: diverged, or the level not reached up to `after`."""

    value: float | None
    diverged: bool = False
    after: float = 0

    def __str__(self) -> str:
        if self.value is not None:
            return show(self.value)
        return "diverged" if self.diverged else f"≥ {show(self.after)}"


def paired_runs(part: Part, runs: Sequence[Run]) -> tuple[list[dict[int, Run]], list[int]]:
    """Per cell of the contrast its runs by seed, and the seeds that every cell has."""
    cells = [_by_seed(cell, runs) for _, cell in part.contrast]
    return cells, sorted(set.intersection(*(set(cell) for cell in cells)))


def _by_seed(cell: Cell, runs: Sequence[Run]) -> dict[int, Run]:
    by_seed: dict[int, Run] = {}
    for run in runs:
        if run.matches(cell):
            twin = by_seed.setdefault(run.seed, run)
            if twin.id != run.id:
                apart = [key for key in run.axes if twin.axes.get(key) != run.axes[key]]
                raise BadInput(
                    f"{format_cell(cell)} has two runs of seed {run.seed}, {min(twin.id, run.id)} and "
                    f"{max(twin.id, run.id)}: the cell must name what tells them apart{': ' * bool(apart)}"
                    f"{', '.join(apart)}; or leave one out."
                )
    return by_seed


def levelled(endpoint: Endpoint, compared: Sequence[tuple[Cell, Run, str | None]]) -> Endpoint | None:
    """The endpoint with its relative level computed from these runs; None where one of them has hardly begun."""
    relative, least = endpoint.relative, endpoint.needed_progress
    if not relative and not least:
        return endpoint
    where = endpoint.split, endpoint.mode, endpoint.metric
    curves = [(cell, series(run, *where, variant, "step")) for cell, run, variant in compared]

    def level(of: Sequence[Series]) -> float | None:
        return level_at_share(of, relative.share if relative else 1, least, endpoint.better or "lower")

    if least and any(level([curve]) is None for _, curve in curves):
        return None
    if not relative:
        return endpoint
    height = level([curve for cell, curve in curves if relative.of in (BEST, cell)])
    return None if height is None else replace(endpoint, level=height)


def outcome_of(endpoint: Endpoint, run: Run, variant: str | None) -> Outcome | None:
    """The endpoint of one run; None where a run that did not diverge has no record of it."""
    lost = run.status == "diverged"
    if endpoint.kind == "value":
        values = [float(record[endpoint.key]) for record in run.records if endpoint.key in record]
        if len(values) != 1:
            return None
        return Outcome(values[0]) if math.isfinite(values[0]) else Outcome(None, diverged=True)
    if endpoint.kind != "time_to_level":
        where = endpoint.split, endpoint.mode, endpoint.metric
        if endpoint.kind == "chosen":
            value = at_epoch(run, endpoint.split, endpoint.metric, endpoint.epoch, variant, endpoint.mode)
        elif endpoint.kind == "area":
            mean, clock = (trapezoid, "step") if endpoint.trapezoid else (area, "epoch")
            value = mean(series(run, *where, variant, clock), log=endpoint.on_log)
        elif endpoint.kind == "gain":
            value = gain(run, *where, endpoint.share, variant)
        elif endpoint.kind == "past_best":
            value = past_best(series(run, *where, variant, "step"), endpoint.better or "lower")
        elif endpoint.kind == "over_sites":
            value = over_sites(run, *where, endpoint.against)
        else:
            value = final(run, *where, variant)
        if lost or (value is not None and not math.isfinite(value)):
            return Outcome(None, diverged=True)
        return None if value is None else Outcome(value)
    points = series(run, endpoint.split, endpoint.mode, endpoint.metric, variant, x=endpoint.clock)
    if not points:
        return Outcome(None, diverged=True) if lost else None
    level = endpoint.level
    assert level is not None and not isinstance(level, Level)
    if endpoint.better == "higher":
        time = time_to_level([(x, -value) for x, value in points], -level, log=False)
    else:
        time = time_to_level(points, level, log=endpoint.on_log)
    return Outcome(time.x, lost) if isinstance(time, Reached) else Outcome(None, lost, time.at)


def sides_of(part: Part, row: Sequence[Outcome]) -> tuple[float, float] | None:
    """One seed's Σ over positive and Σ over negative weights; None where a run has no number, or it no logarithm."""
    terms = []
    for weight, outcome in zip(part.weights, row, strict=True):
        # A level that is met before training, at epoch 0, has no log ratio, only an order.
        timed = part.endpoint.kind == "time_to_level" and part.scale == "log"
        if outcome.value is None or (timed and outcome.value <= 0):
            return None
        terms.append((weight, abs(weight) * _SCALES[part.scale](outcome.value)))
    plus = math.fsum(term for weight, term in terms if weight > 0)
    minus = math.fsum(term for weight, term in terms if weight < 0)
    # Equal up to rounding is a tie; left as it is, the same rounding error in every seed would be a certain effect.
    return plus, plus if math.isclose(plus, minus, rel_tol=1e-12) else minus


def bounds_of(part: Part, row: Sequence[Outcome]) -> Bounds:
    """One seed's effect; where a run has no number its bounds, by interval arithmetic with infinite ends."""
    sides = sides_of(part, row)
    if sides is not None:
        return (sides[0] - sides[1],) * 2
    low = high = 0.0
    for weight, outcome in zip(part.weights, row, strict=True):
        ends = [weight * end for end in _ends(part, outcome)]
        low, high = low + min(ends), high + max(ends)
    return -math.inf if math.isnan(low) else low, math.inf if math.isnan(high) else high


def _ends(part: Part, outcome: Outcome) -> Bounds:
    timed = part.endpoint.kind == "time_to_level"
    worst = -math.inf if part.endpoint.better == "higher" and not timed else math.inf
    # A run that has not reached its level at the number is surely later; before it nobody knows.
    is_later = part.than is not None and outcome.after >= part.than
    if outcome.value is None and (outcome.diverged or is_later):
        return worst, worst
    value = outcome.after if outcome.value is None else outcome.value
    bound = -math.inf if timed and part.scale == "log" and value <= 0 else float(_SCALES[part.scale](value))
    return (bound, bound) if outcome.value is not None else (bound, worst)
