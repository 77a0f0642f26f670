"""One run's records as series, their end points, and the mean curve over seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from normbench.curves.statistics import Interval, t_interval
from normbench.runs.record import RunRecord

Series = list[tuple[float, float]]  # (epoch, value), epochs ascending; epoch 0 is the evaluation before training
FLOOR = 1e-12  # logs of losses end here: below it a float32 loss is zero


@dataclass(frozen=True)
class Reached:
    """The level was first met at `epoch`, interpolated."""

    epoch: float


@dataclass(frozen=True)
class Censored:
    """The level was not met up to epoch `at`, the last finite evaluation."""

    at: float


@dataclass(frozen=True)
class Point:
    """One epoch of a mean curve: over the `n` runs with a finite value; `diverged` runs of the group have none."""

    epoch: float
    mean: float | None
    interval: Interval | None
    n: int
    diverged: int


def series(run: RunRecord, split: str, mode: str, metric: str, variant: str | None = None) -> Series:
    """(epoch, value) of one metric, e.g. `series(run, "train", "eval", "nll")`; values as logged, NaN and inf included.

    Records of mode `both` stand for `eval` and `train`: a model whose two modes are one function is evaluated once.
    Records of another inference `variant` (e.g. "momentum=0.01") are left out; None is the plain evaluation.
    """
    modes = (mode, "both") if mode in ("eval", "train") else (mode,)
    values = {
        record["epoch"]: float(record[metric])  # float() also reads the log's "NaN", "Infinity", "-Infinity"
        for record in run.records
        if record.get("split") == split
        and record.get("mode") in modes
        and record.get("variant") == variant
        and metric in record
    }
    return sorted(values.items())


def final(run: RunRecord, split: str, mode: str, metric: str, variant: str | None = None) -> float | None:
    """The value at the last epoch the run was asked for; None where it is not logged (diverged, not evaluated)."""
    return dict(series(run, split, mode, metric, variant)).get(run.epochs)


def time_to_level(points: Series, level: float, log: bool = True) -> Reached | Censored:
    """First epoch t with value ≤ level: t = t₀ + (t₁ − t₀)·(v₀ − level)/(v₀ − v₁), on log values for losses.

    Between two evaluations the crossing is interpolated, so the answer is never finer than one evaluation: a curve that
    dips and returns in between is not seen. Non-finite values do not meet a level. Raises ValueError for no points.
    """
    if not points:
        raise ValueError("time_to_level needs at least one evaluation")
    scale = log_floored if log else float
    before: tuple[float, float] | None = None
    for epoch, value in points:
        if not math.isfinite(value):
            continue
        if value <= level:
            if before is None:
                return Reached(epoch)
            start, start_value = before[0], scale(before[1])
            drop = start_value - scale(value)
            # Both ends below the logarithm's floor leave nothing to interpolate.
            share = (start_value - scale(level)) / drop if drop > 0 else 1.0
            return Reached(start + (epoch - start) * share)
        before = (epoch, value)
    return Censored(before[0] if before else 0)


def log_floored(value: float, floor: float = FLOOR) -> float:
    """Natural log with values ≤ 1e-12 taken as 1e-12: a float32 loss reaches exactly 0."""
    return math.log(max(value, floor))


def aggregate(
    runs: Sequence[RunRecord],
    split: str,
    mode: str,
    metric: str,
    level: float = 0.95,
    variant: str | None = None,
    log: bool = False,
    floor: float = FLOOR,
) -> list[Point]:
    """Per epoch the mean and t interval over the runs of one cell; with `log` the geometric mean, for log axes.

    A run without a finite value at an epoch because it diverged is counted in that epoch's `diverged`: the mean is then
    one of the survivors, and the count has to stand beside it.
    """
    curves = [(run.status == "diverged", dict(series(run, split, mode, metric, variant))) for run in runs]
    points = []
    for epoch in sorted({epoch for _, curve in curves for epoch in curve}):
        values = [curve[epoch] for _, curve in curves if math.isfinite(curve.get(epoch, math.nan))]
        diverged = sum(not math.isfinite(curve.get(epoch, math.nan if lost else 0.0)) for lost, curve in curves)
        estimate = t_interval([log_floored(value, floor) for value in values] if log else values, level)
        mean, interval = estimate.mean, estimate.interval
        if log and mean is not None:
            mean = math.exp(mean)
            interval = interval and (math.exp(interval[0]), math.exp(interval[1]))
        points.append(Point(epoch, mean, interval, estimate.n, diverged))
    return points
