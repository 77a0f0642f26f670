"""One run's records as series, their end points, and the mean curve over seeds."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from normbench.curves.statistics import Interval, t_interval
from normbench.runs.record import PART, RunRecord

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


def area(points: Series, log: bool) -> float | None:
    """Mean over the epochs from 1 on, with `log` the geometric one; None without any. NaN where one is not finite."""
    values = [value for epoch, value in points if epoch >= 1]
    if not values or not all(math.isfinite(value) for value in values):
        return math.nan if values else None
    mean = math.fsum(log_floored(value) if log else value for value in values) / len(values)
    return math.exp(mean) if log else mean


def best_epoch(run: RunRecord, variant: str | None = None) -> int | None:
    """The epoch from 1 on with the lowest finite validation NLL, the first of equal ones; None without any."""
    points = [(v, epoch) for epoch, v in series(run, "valid", "eval", "nll", variant) if epoch and math.isfinite(v)]
    return int(min(points)[1]) if points else None


def ways(run: RunRecord, others: bool = False) -> list[str]:
    """The inference variants that this run was evaluated in, `others` with other populations too, in one order."""
    found = dict.fromkeys(v for record in run.records if (v := record.get("variant")))
    return [v for v in found if (others or "populations=" not in v) and not PART.search(v)]


def in_orders(run: RunRecord, split: str, metric: str, variant: str = "") -> list[float]:
    """The metric with the examples in further orders, at the lowest validation NLL."""
    return _parts(run, split, metric, variant, "shuffle")


def in_blocks(run: RunRecord, split: str, metric: str, variant: str | None = None) -> list[float]:
    """The metric on parts of the examples, each by itself, at the lowest validation NLL; none where it is not logged.

    variant: as in `at_epoch`, of one way only.
    """
    if variant is not None and variant not in ways(run):
        if not variant.startswith(("best by ", "worst by ")):
            return []
        variant = _ranked(run, variant, "best")
    return _parts(run, split, metric, variant or "", "block")


def _parts(run: RunRecord, split: str, metric: str, variant: str, kind: str) -> list[float]:
    epoch, part = best_epoch(run), re.compile(rf"{re.escape(variant)} ?{kind}=\d+")
    return [
        float(record[metric])
        for record in run.records
        if record["epoch"] == epoch and record["split"] == split and part.fullmatch(record.get("variant", ""))
    ]


def at_epoch(
    run: RunRecord, split: str, metric: str, when: str | int, variant: str | None = None, mode: str = "eval"
) -> float | None:
    """A metric at an epoch, None where it is not logged.

    when: a number; `last`; `best`, where the usual evaluation has its lowest validation NLL; `own`, where this variant
        has it.
    variant: one of `ways`; patterns (`TT**|FF**`, `TF** populations=recalibrated`), for the mean over those that match,
        a star being one letter; or `best by SPLIT`, `worst by SPLIT`: the one with the lowest (highest finite) NLL
        there, each at its epoch.
    """

    where = split, mode, metric
    if variant is None or variant in ways(run):
        return _value(run, when, variant, where)
    if " by " in variant:
        ranked = _ranked(run, variant, when)
        return None if ranked is None else _value(run, when, ranked, where)
    among = ways(run, others="populations=" in variant)
    patterns = [pattern.replace("*", "?") for pattern in variant.split("|")]  # one letter each
    matching = [way for way in among if any(fnmatchcase(way, pattern) for pattern in patterns)]
    values = [_value(run, when, way, where) for way in matching]
    known = [v for v in values if v is not None]
    return math.fsum(known) / len(known) if known and len(known) == len(values) else None


def _value(run: RunRecord, when: str | int, way: str | None, of: tuple[str, str, str]) -> float | None:
    known = {"last": run.epochs, "own": best_epoch(run, way), "best": best_epoch(run)}
    epoch = when if isinstance(when, int) else known[when]
    return dict(series(run, *of, way)).get(epoch) if epoch is not None else None


def _ranked(run: RunRecord, rank: str, when: str | int) -> str | None:
    """The way that `best by SPLIT` or `worst by SPLIT` names, None where none has a finite NLL there."""
    first, by = rank.split(" by ")
    losses = {way: loss for way in ways(run) if (loss := _value(run, when, way, (by, "eval", "nll"))) is not None}
    finite = {way: loss for way, loss in losses.items() if math.isfinite(loss)}
    return (min if first == "best" else max)(finite, key=finite.__getitem__) if finite else None


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
