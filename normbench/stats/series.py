"""One run's records as series, their end points, and the mean curve over seeds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise

from normbench.core.eval_variants import DEFAULT, Variant, select, text
from normbench.runs.run import EVALUATED, Run
from normbench.stats.statistics import Estimate, Interval, ranks, t_interval

CLOCKS = {"epoch": "epochs", "step": "updates", "examples": "examples"}

Series = list[tuple[float, float]]  # (x, value), ascending; 0 is the evaluation before training
PARTS = {"order", "block"}  # of a record of other orders, or parts, of the examples
ABSURD = 10.0
FLOOR = 1e-12  # logs of losses end here: below it a float32 loss is zero


@dataclass(frozen=True)
class Reached:
    """The level was first met at `x` (epochs, or what else the points are over), interpolated."""

    x: float


@dataclass(frozen=True)
class Censored:
    """The level was not met up to `at`, the last finite evaluation."""

    at: float


@dataclass(frozen=True)
class Point:
    """One evaluation of a mean curve: over the `n` runs with a finite value; `diverged` runs of the group have none."""

    x: float
    mean: float | None
    interval: Interval | None
    n: int
    diverged: int


def series(run: Run, split: str, mode: str, metric: str, variant: str | None = None, x: str = "epoch") -> Series:
    """(x, value) of one metric, e.g. `series(run, "train", "eval", "nll")`; values as logged, NaN and inf included.

    Records of mode `both` stand for `eval` and `train`: a model whose two modes are one function is evaluated once.
    Those of mode `logged`, of another program, stand for `eval`.
    variant: words that name one, as `normbench.core.eval_variants` reads them (`momentum=0.01`); None is the default
    evaluation, and a name that fits none or several has no points. x: `epoch`, `step` or `examples`.
    """
    chosen = [DEFAULT] if variant is None else select(variant, variants(run))
    return sorted(_points(run, (split, mode, metric), chosen[0], x).items()) if len(chosen) == 1 else []


def _points(run: Run, where: tuple[str, str, str], variant: Variant, x: str = "epoch") -> Mapping[float, float]:
    """Value by x, cached: claims, figure and table of an artifact use the same series."""
    split, mode, metric = where
    key = where, text(variant), x
    if key not in run.cache:
        modes = EVALUATED if mode == "eval" else (mode, "both") if mode == "train" else (mode,)
        run.cache[key] = {
            place: float(value)  # float() also reads the log's "NaN", "Infinity", "-Infinity"
            for name in modes
            for block in run.records.blocks
            if block.split == split and block.mode == name and block.variant == variant
            if {x, metric} <= block.columns.keys() and not PARTS & block.columns.keys()
            for place, value in zip(block.columns[x], block.columns[metric], strict=True)
        }
    points: Mapping[float, float] = run.cache[key]
    return points


def final(run: Run, split: str, mode: str, metric: str, variant: str | None = None) -> float | None:
    """The value at the last update the run was asked for; None where it is not logged (diverged, not evaluated)."""
    return dict(series(run, split, mode, metric, variant, x="step")).get(run.steps) if run.steps else None


def gain(run: Run, split: str, mode: str, metric: str, share: float, variant: str | None = None) -> float | None:
    """The value at the last update the run was asked for less that after a share of these; None where one is lacking.

    `gain(run, "mr", "along", "accuracy", 0.5)`: what the second half of training added.
    """
    values = dict(series(run, split, mode, metric, variant, x="step"))
    first, last = values.get(share * run.steps), values.get(run.steps)
    return None if first is None or last is None else last - first


def past_best(points: Series, better: str) -> float | None:
    """The last value less the best one after the first evaluation, that before training; None without any."""
    values = [value for x, value in points if x > 0]
    if not values or not all(map(math.isfinite, values)):
        return math.nan if values else None
    return values[-1] - (max(values) if better == "higher" else min(values))


def over_sites(run: Run, split: str, mode: str, metric: str, against: str) -> float | None:
    """Spearman's correlation of two numbers that the last record has of each site, as `block.0.mlp.alpha`.

    against: the other number, or `depth`, the site's place in the network. None below three sites, or where one of
    them does not vary.
    """
    paths = sites(run, split, metric)
    first = [final(run, split, mode, f"{path}.{metric}") for path in paths]
    second = [
        place if against == "depth" else final(run, split, mode, f"{path}.{against}")
        for place, path in enumerate(paths)
    ]
    pairs = [(float(x), float(y)) for x, y in zip(first, second, strict=True) if x is not None and y is not None]
    columns = [*zip(*pairs, strict=True)]
    if len(pairs) < 3 or any(len({*values}) == 1 for values in columns):
        return None
    if any(map(math.isnan, chain(*columns))):
        return math.nan
    return statistics.correlation(*map(ranks, columns))


def sites(run: Run, split: str, metric: str) -> list[str]:
    """The paths of the sites of which a run records this number, from the first to the last."""
    logged = {name for block in run.records.blocks if block.split == split for name in block.columns}
    return sorted((name.removesuffix(f".{metric}") for name in logged if name.endswith(f".{metric}")), key=_depth)


def _depth(path: str) -> list[tuple[int, str]]:
    """Sorts paths of sites: block.2 before block.10, names by the alphabet, so that `final` is last."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in path.split(".")]


def area(points: Series, log: bool) -> float | None:
    """Mean over the evaluations after the first, with `log` the geometric one; None without any.

    The first is that before training. NaN where one is not finite.
    """
    values = [value for x, value in points if x > 0]
    if not values or not all(math.isfinite(value) for value in values):
        return math.nan if values else None
    mean = math.fsum(log_floored(value) if log else value for value in values) / len(values)
    return math.exp(mean) if log else mean


def trapezoid(points: Series, log: bool) -> float | None:
    """Mean over the time between the first and the last point by the trapezoid rule, with `log` of the logarithms; None
    below two points, or where one is not finite."""
    if len(points) < 2 or not all(math.isfinite(value) for _, value in points):
        return None
    values = [log_floored(value) if log else value for _, value in points]
    pairs = zip(pairwise(x for x, _ in points), pairwise(values), strict=True)
    total = math.fsum((x1 - x0) * (a + b) / 2 for (x0, x1), (a, b) in pairs)
    mean = total / (points[-1][0] - points[0][0])
    return math.exp(mean) if log else mean


def best_step(run: Run, variant: Variant = DEFAULT) -> int | None:
    """The update with the best value of the monitored metric, the first of equal ones; None without a finite value."""
    key = best_step, text(variant)
    if key not in run.cache:
        monitor = run.monitor
        sign = 1 if monitor["goal"] == "min" else -1
        points = _points(run, (monitor["split"], "eval", monitor["metric"]), variant, "step")
        finite = [(sign * value, step) for step, value in points.items() if step and math.isfinite(value)]
        run.cache[key] = int(min(finite)[1]) if finite else None
    best: int | None = run.cache[key]
    return best


def exploded(run: Run) -> tuple[float, float] | None:
    """The monitored metric before training and at the last evaluation, if the last is over ABSURD times the first;
    else, or if higher is better, None.

    Ten times: of the published runs those beyond are of BN at batches of one, evaluated with running statistics (11 to
    19 times); overfitting raised it to 2.7 times at most.
    """
    monitor = run.monitor
    points = series(run, monitor["split"], "eval", monitor["metric"], x="step")
    if monitor["goal"] == "max" or not points:
        return None
    first, last = points[0][1], points[-1][1]
    return (first, last) if last > ABSURD * abs(first) else None


def variants(run: Run) -> list[Variant]:
    if variants not in run.cache:
        evaluated = (block.variant for block in run.records.blocks if block.variant)
        run.cache[variants] = list({text(variant): variant for variant in evaluated}.values())
    return list(run.cache[variants])


def in_orders(run: Run, metric: str, variant: str | None = None) -> list[float]:
    """The metric with the test examples in further orders, at the best; `variant` names one, as in `at_epoch`."""
    chosen = named(run, variant, "best")
    step = best_step(run)
    return [
        float(record[metric])
        for block in run.records.blocks
        if "order" in block.columns and block.split == "test" and [block.variant] == chosen
        for record in block
        if record["step"] == step
    ]


def named(run: Run, words: str | None, when: str | int) -> list[Variant]:
    """The variants of this run that words of a claim name, as in `at_epoch`; none where they fit none."""
    if words is None:
        return [DEFAULT]
    if " by " in words:
        ranked = _ranked(run, words, when)
        return [] if ranked is None else [ranked]
    key = named, words
    if key not in run.cache:
        run.cache[key] = select(words, variants(run))
    return list(run.cache[key])


def at_epoch(
    run: Run, split: str, metric: str, when: str | int, variant: str | None = None, mode: str = "eval"
) -> float | None:
    """A metric at an evaluation, None where it is not logged.

    when: an epoch; `last`; `best`, where what is monitored is best in the default evaluation; `own`, where it is in
        this variant.
    variant: words that name some (`TT**|FF**`, `TF** populations=recalibrated`), for the mean over them; or `best by
        SPLIT`, `worst by SPLIT`: the one with the lowest (highest finite) NLL there, each at its evaluation.
    """
    values = [_value(run, when, chosen, (split, mode, metric)) for chosen in named(run, variant, when)]
    present = [value for value in values if value is not None]
    return math.fsum(present) / len(present) if present and len(present) == len(values) else None


def _value(run: Run, when: str | int, variant: Variant, where: tuple[str, str, str]) -> float | None:
    if isinstance(when, int):
        return _points(run, where, variant).get(when)
    step = run.steps if when == "last" else best_step(run, variant if when == "own" else DEFAULT)
    return None if not step else _points(run, where, variant, "step").get(step)


def _ranked(run: Run, rank: str, when: str | int) -> Variant | None:
    """The variant that `best by SPLIT` or `worst by SPLIT` names, None where none has a finite NLL there.

    Among those of every evaluation: what is tried at the best alone (`eval.also_at_best`) is no candidate.
    """
    first, split = rank.split(" by ")
    at_best_alone = {words.partition("=")[0] for words in run.config.get("eval", {}).get("also_at_best", ())}
    finite = [
        (loss, number, variant)
        for number, variant in enumerate(variants(run))
        if not at_best_alone & variant.keys()
        and (loss := _value(run, when, variant, (split, "eval", "nll"))) is not None
        and math.isfinite(loss)
    ]
    if not finite:
        return None
    return min(finite, key=lambda f: f[:2])[2] if first == "best" else max(finite, key=lambda f: (f[0], -f[1]))[2]


def time_to_level(points: Series, level: float, log: bool = True) -> Reached | Censored:
    """First t with value ≤ level: t = t₀ + (t₁ − t₀)·(v₀ − level)/(v₀ − v₁), on log values for losses.

    Between two evaluations the crossing is interpolated, so the answer is never finer than one evaluation: a curve that
    dips and returns in between is not seen. Non-finite values do not meet a level. Raises ValueError for no points.
    """
    if not points:
        raise ValueError("time_to_level needs at least one evaluation")
    scale = log_floored if log else float
    before: tuple[float, float] | None = None
    for x, value in points:
        if not math.isfinite(value):
            continue
        if value <= level:
            if before is None:
                return Reached(x)
            start, start_value = before[0], scale(before[1])
            drop = start_value - scale(value)
            # Both ends below the logarithm's floor leave nothing to interpolate.
            share = (start_value - scale(level)) / drop if drop > 0 else 1.0
            return Reached(start + (x - start) * share)
        before = (x, value)
    return Censored(before[0] if before else 0)


def level_at_share(curves: Sequence[Series], share: float, least: float = 0.0, better: str = "lower") -> float | None:
    """The level at this share (0 to 1) of the distance from the worst start of these curves to their best value.

    None if the distance is not larger than `least`, or no value is finite.
    """
    sign = -1 if better == "higher" else 1
    finite = [values for points in curves if (values := [sign * v for _, v in points if math.isfinite(v)])]
    if not finite:
        return None
    start, best = max(values[0] for values in finite), min(map(min, finite))
    return sign * (best + (1 - share) * (start - best)) if start - best > least else None


def log_floored(value: float, floor: float = FLOOR) -> float:
    """Natural log with values ≤ 1e-12 taken as 1e-12: a float32 loss reaches exactly 0."""
    return math.log(max(value, floor))


def geometric(values: Sequence[float], floor: float = FLOOR) -> Estimate:
    """The geometric mean with its interval, of the logarithms'."""
    logs = t_interval([log_floored(value, floor) for value in values])
    if logs.mean is None:
        return logs
    interval = logs.interval and (math.exp(logs.interval[0]), math.exp(logs.interval[1]))
    return replace(logs, mean=math.exp(logs.mean), interval=interval)


def aggregate(
    runs: Sequence[Run], split: str, mode: str, metric: str, log: bool = False, floor: float = FLOOR, x: str = "epoch"
) -> list[Point]:
    """Per evaluation, at `x`, the mean and t interval over the runs of a cell; with `log` the geometric mean.

    A run without a finite value there because it diverged is counted in `diverged`: the mean is then one of the
    survivors, and the count belongs to it.
    """
    curves = [(run.status == "diverged", dict(series(run, split, mode, metric, x=x))) for run in runs]
    points = []
    for place in sorted({place for _, curve in curves for place in curve}):
        values = [curve[place] for _, curve in curves if math.isfinite(curve.get(place, math.nan))]
        diverged = sum(not math.isfinite(curve.get(place, math.nan if lost else 0.0)) for lost, curve in curves)
        estimate = geometric(values, floor) if log else t_interval(values)
        points.append(Point(place, estimate.mean, estimate.interval, estimate.n, diverged))
    return points
