"""One part of a claim against the runs: the effect over seeds, its interval, and whether the part holds.

Effects are paired by seed, Σ weight · g(endpoint), with Student t intervals. Where a run diverged or did not reach a
level there is no number to average: order is all that is known, and the exact sign test decides.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from normbench.curves.series import Reached, area, at_epoch, final, in_blocks, log_floored, series, time_to_level
from normbench.curves.statistics import (
    Estimate,
    Interval,
    crossed,
    detectable_effect,
    equivalent,
    paired,
    prediction_interval,
    seeds_needed,
    sign_test,
    tost_interval,
)
from normbench.errors import NormbenchError
from normbench.papers.claims import LOSSES, Cell, Endpoint, Part, cell_text
from normbench.runs.record import RunRecord

_NOT_QUITE = "on the other side, but not at the {} that one of several parts needs to refute the claim"
MIN_SEEDS = 5  # below it intervals are so wide, and spreads so uncertain, that no word is given


@dataclass(frozen=True)
class PartResult:
    """What the runs say about one part; `outcome`: holds, weaker, fails, open, not run or not decidable here.

    `level` is that of the interval, and of a part that holds; `refuting` that at which it fails. With `blocks` of test
    examples the interval covers their choice as well as the seeds'; with 0 it covers the seeds'.
    """

    id: str
    kind: str
    endpoint: str
    unit: str
    level: float | None
    refuting: float | None = None
    outcome: str = "open"
    reason: str = ""
    effect: float | None = None
    interval: Interval | None = None
    n: int = 0
    sd: float | None = None
    correlation: float | None = None
    prediction: Interval | None = None
    expect: str | None = None
    paper: float | None = None
    within: float | None = None
    tost: Interval | None = None
    detectable: float | None = None
    sign_test: Mapping[str, float] | None = None
    censored: int = 0
    diverged: int = 0
    blocks: int = 0
    seeds: tuple[int, ...] = ()
    cells: tuple[Mapping[str, Any], ...] = ()
    runs: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Outcome:
    """One run's endpoint; `value` None is worse than any number: diverged, or the level not reached up to `after`."""

    value: float | None
    diverged: bool = False
    after: float = 0

    def __str__(self) -> str:
        if self.value is not None:
            return _show(self.value)
        return "diverged" if self.diverged else f"≥ {_show(self.after)}"


def evaluate(
    part: Part, runs: Sequence[RunRecord], level: float, refuting: float | None = None, planned: int = MIN_SEEDS
) -> PartResult:
    """One part against the runs of one control setting, by a two-sided interval or test at `level`.

    It fails only where the interval or test at `refuting` (`level` unless given) lies on the other side. Nothing is
    decided below `planned` seeds: who may stop at any of several n finds an effect where there is none. Only seeds with
    a run in every cell count. Raises NormbenchError when a cell has two runs of one seed.
    """
    if part.kind == "exact":
        return _evaluate_exact(part, runs)
    result = _evaluate(part, runs, level, refuting)
    if MIN_SEEDS <= result.n < planned and result.outcome in ("holds", "weaker", "fails"):
        return replace(result, outcome="open", reason=f"{result.reason}; no verdict before the planned n = {planned}")
    return result


def _evaluate(part: Part, runs: Sequence[RunRecord], level: float, refuting: float | None) -> PartResult:
    cells, seeds = paired_runs(part, runs)
    result = PartResult(
        part.id, part.kind, str(part.endpoint), part.unit, level, refuting or level,
        expect=part.expect, paper=part.paper, within=part.within,
        n=len(seeds), seeds=tuple(seeds), runs=tuple(dict.fromkeys(cell[seed].id for cell in cells for seed in seeds)),
    )  # fmt: skip
    empty = [cell_text(cell) for (_, cell), found in zip(part.contrast, cells, strict=True) if not found]
    if empty:
        return replace(result, outcome="not run", reason=f"no runs: {'; '.join(empty)}")
    if not seeds:
        return replace(result, reason="no seed has a run in every cell")
    rows: list[list[_Outcome]] = []  # one per seed, one outcome per cell
    lacking = set()
    for seed in seeds:
        rows.append([])
        for (_, cell), found in zip(part.contrast, cells, strict=True):
            outcome = _outcome(part.endpoint, found[seed], cell.get("variant", part.endpoint.variant))
            if outcome is None:
                lacking.add(found[seed].id)
            else:
                rows[-1].append(outcome)
    if lacking:
        reason = f"no record of {part.endpoint} in {', '.join(sorted(lacking))}"
        return replace(result, outcome="not decidable here", reason=reason)
    flat = [outcome for row in rows for outcome in row]
    result = replace(
        result,
        censored=sum(outcome.value is None for outcome in flat) if part.endpoint.kind == "time_to_level" else 0,
        diverged=sum(outcome.diverged for outcome in flat),
        cells=tuple(
            {"cell": dict(cell), "weight": weight, "values": [str(outcome) for outcome in column]}
            for (weight, cell), column in zip(part.contrast, zip(*rows, strict=True), strict=True)
        ),
    )
    # A level that is met before training, at epoch 0, has no log ratio either: only its order is known.
    timed = part.endpoint.kind == "time_to_level" and part.scale == "log"
    if any(outcome.value is None or (timed and outcome.value <= 0) for outcome in flat):
        return _by_order(part, result, rows)
    sides = [_sides(part, [outcome.value for outcome in row if outcome.value is not None]) for row in rows]
    plus, minus = [side[0] for side in sides], [side[1] for side in sides]
    blocks = _in_blocks(part, cells, seeds)
    judged = _by_interval(part, result, plus, minus, level, blocks)
    if judged.outcome != "fails" or refuting in (None, level):
        return judged
    assert refuting is not None
    if _by_interval(part, result, plus, minus, refuting, blocks).outcome == "fails":
        return judged
    return replace(judged, outcome="open", reason=f"{judged.reason}; {_NOT_QUITE.format(_percent(refuting))}")


def _by_interval(
    part: Part,
    result: PartResult,
    plus: Sequence[float],
    minus: Sequence[float],
    level: float,
    blocks: Sequence[Sequence[float]],
) -> PartResult:
    """Every run has a number: Student t on the paired effects, and on those of blocks of examples where there are."""
    effects = [a - b for a, b in zip(plus, minus, strict=True)]
    seen = paired(plus, minus, level)
    if blocks:
        seen = replace(crossed(blocks, level), correlation=seen.correlation)
    result = replace(
        result,
        blocks=len(blocks[0]) if blocks else 0,
        effect=seen.mean,
        interval=seen.interval,
        sd=seen.sd,
        correlation=seen.correlation,
        prediction=prediction_interval(effects, level),
        tost=tost_interval(effects, level) if part.kind == "equivalence" else None,
        detectable=None if seen.sd is None else detectable_effect(seen.sd, seen.n, level),
    )
    over = " seeds, over test examples too" if blocks else ""
    measured = f"{result.endpoint}, {part.unit} {_show(seen.mean)} {_span(seen.interval)}, n = {seen.n}{over}"
    if seen.correlation is not None:
        measured += f" (pairing r = {seen.correlation:.2f})"
    if result.diverged:
        measured += f", {result.diverged} diverged afterwards"
    if seen.interval is None or seen.n < MIN_SEEDS:
        power = "" if result.detectable is None else _power(result)
        return replace(result, reason=f"{measured}; no verdict below n = {MIN_SEEDS}{power}")
    if part.kind == "equivalence":
        return _by_equivalence(part, result, seen, effects, measured)
    side = "positive" if seen.interval[0] > 0 else "negative" if seen.interval[1] < 0 else None
    if part.expect and side is None:
        text = f"{result.endpoint}: seen {_show(seen.mean)} {part.unit} {_span(seen.interval)}"
        # more seeds make the part of the test examples no smaller
        return replace(result, reason=text + _power(result) + ("; over test examples too" if blocks else _wanted(seen)))
    if part.expect and side != part.expect:
        return replace(result, outcome="fails", reason=measured)
    if part.kind == "direction":
        return replace(result, outcome="holds", reason=measured)
    return _by_size(part, result, measured)


def _by_equivalence(
    part: Part, result: PartResult, seen: Estimate, effects: Sequence[float], measured: str
) -> PartResult:
    assert part.within is not None and seen.interval is not None
    tost = f"{_percent(2 * seen.level - 1)} interval {_span(result.tost)} against ±{_show(part.within)}"
    if equivalent(effects, part.within, seen.level):
        return replace(result, outcome="holds", reason=f"{measured}; {tost}")
    if seen.interval[0] > part.within or seen.interval[1] < -part.within:
        return replace(result, outcome="fails", reason=f"{measured}; {tost}")
    return replace(result, reason=f"{result.endpoint}: seen {_show(seen.mean)} {part.unit}; {tost}{_power(result)}")


def _by_size(part: Part, result: PartResult, measured: str) -> PartResult:
    """The direction holds or none is claimed: is the paper's single number plausible as one further run of ours?"""
    assert part.paper is not None and result.prediction is not None
    low, high = result.prediction
    text = f"{measured}; the paper's {_show(part.paper)} against our prediction interval {_span(result.prediction)}"
    if low <= part.paper <= high:
        return replace(result, outcome="holds", reason=text)
    if part.expect is None:
        return replace(result, outcome="fails", reason=text)
    claims_more = part.paper > high if part.expect == "positive" else part.paper < low
    return replace(result, outcome="weaker" if claims_more else "holds",
                   reason=f"{text}: ours is {'weaker' if claims_more else 'stronger'}")  # fmt: skip


def _by_order(part: Part, result: PartResult, rows: Sequence[Sequence[_Outcome]]) -> PartResult:
    """Some run has no number: nothing is averaged, the pairs whose order is known decide by the exact sign test."""
    flat = [outcome for row in rows for outcome in row]
    bounds = [outcome.after for outcome in flat if outcome.value is None and not outcome.diverged]
    bound = f" (≥ {_show(min(bounds))})" if bounds else ""
    counts = [f"{result.censored} censored{bound}"] if result.censored else []
    counts += [f"{result.diverged} diverged"] if result.diverged else []
    counted = f"{result.endpoint}: {', '.join(counts) or 'level met before training'} in {len(flat)} runs"
    weights = [weight for weight, _ in part.contrast]
    if len(weights) != 2 or sum(weights) != 0 or part.expect is None:
        return replace(result, reason=f"{counted}; only a direction between two cells can be decided by order")
    signs = [math.copysign(1, weights[0]) * _order(first, second, part.endpoint) for first, second in rows]
    above, below = sum(sign > 0 for sign in signs), sum(sign < 0 for sign in signs)
    p = sign_test(above, below)
    result = replace(result, sign_test={"above": above, "below": below, "p": p})
    text = f"{counted}; sign test {above} above : {below} below, p = {_show(p)}, n = {result.n}"
    assert result.level is not None and result.refuting is not None
    alpha = 1 - result.level
    if p > alpha:
        fewest = next(n for n in count(1) if sign_test(n, 0) <= alpha)
        return replace(result, reason=f"{text}; order alone needs {fewest} pairs or more")
    if (part.expect == "positive") != (above > below):
        if p > 1 - result.refuting:
            return replace(result, reason=f"{text}; {_NOT_QUITE.format(_percent(result.refuting))}")
        return replace(result, outcome="fails", reason=text)
    if part.kind == "size":
        return replace(result, reason=f"{text}; a size needs a number from every run")
    return replace(result, outcome="holds", reason=text)


def _order(first: _Outcome, second: _Outcome, endpoint: Endpoint) -> int:
    """Sign of first − second; 0 for a tie or where it is unknown."""
    if first.value is not None and second.value is not None:
        return (first.value > second.value) - (first.value < second.value)
    if first.value is None and second.value is None:
        return 0
    if first.value is not None:
        return -_order(second, first, endpoint)
    assert second.value is not None
    # A shorter budget that ended before the other run's crossing says nothing about which was first.
    if not first.diverged and first.after < second.value:
        return 0
    return -1 if endpoint.better == "higher" else 1


def _evaluate_exact(part: Part, runs: Sequence[RunRecord]) -> PartResult:
    """Computed numbers have no seeds and no interval: every run of the cell has to meet the bound."""
    cell = part.contrast[0][1]
    found = sorted((run for run in runs if run.matches(cell)), key=lambda run: run.id)
    result = PartResult(
        part.id, part.kind, str(part.endpoint), part.unit, None, n=len(found), runs=tuple(run.id for run in found)
    )
    if not found:
        return replace(result, outcome="not run", reason=f"no runs: {cell_text(cell)}")
    numbers = []
    for run in found:
        values = [float(record[part.endpoint.key]) for record in run.records if part.endpoint.key in record]
        if len(values) != 1:
            reason = f"run {run.id} has {len(values)} records of {part.endpoint.key}, not one"
            return replace(result, outcome="not decidable here", reason=reason)
        numbers += values
    bounds = ((part.value, "=", float.__eq__), (part.at_most, "≤", float.__le__), (part.at_least, "≥", float.__ge__))
    asked = [(float(bound), sign, test) for bound, sign, test in bounds if bound is not None]
    wrong = [number for number in numbers if not all(test(number, bound) for bound, _, test in asked)]
    shown = (wrong or numbers)[0]
    wanted = " and ".join(f"{sign} {_show(bound)}" for bound, sign, _ in asked)
    reason = f"{part.endpoint.key}: {_show(shown)} {part.unit}, asked {wanted}"
    return replace(result, effect=shown, outcome="fails" if wrong else "holds", reason=reason)


def paired_runs(part: Part, runs: Sequence[RunRecord]) -> tuple[list[dict[int, RunRecord]], list[int]]:
    """Per cell of the contrast its runs by seed, and the seeds that every cell has."""
    cells = [_by_seed(cell, runs) for _, cell in part.contrast]
    return cells, sorted(set.intersection(*(set(found) for found in cells)))


def _by_seed(cell: Cell, runs: Sequence[RunRecord]) -> dict[int, RunRecord]:
    found: dict[int, RunRecord] = {}
    for run in runs:
        if run.matches(cell):
            twin = found.setdefault(run.seed, run)
            if twin.id != run.id:
                raise NormbenchError(
                    f"{cell_text(cell)} has two runs of seed {run.seed}, {min(twin.id, run.id)} and "
                    f"{max(twin.id, run.id)}: the cell must name what tells them apart."
                )
    return found


def _outcome(endpoint: Endpoint, run: RunRecord, variant: str | None) -> _Outcome | None:
    """The endpoint of one run; None where a run that did not diverge has no record of it."""
    lost = run.status == "diverged"
    if endpoint.kind == "value":
        found = [float(record[endpoint.key]) for record in run.records if endpoint.key in record]
        if len(found) != 1:
            return None
        return _Outcome(found[0]) if math.isfinite(found[0]) else _Outcome(None, diverged=True)
    if endpoint.kind in ("final", "area", "chosen"):
        where = endpoint.split, endpoint.mode, endpoint.metric
        if endpoint.kind == "chosen":
            value = at_epoch(run, endpoint.split, endpoint.metric, endpoint.epoch, variant, endpoint.mode)
        elif endpoint.kind == "area":
            value = area(series(run, *where, variant), log=endpoint.metric in LOSSES)
        else:
            value = final(run, *where, variant)
        if lost or (value is not None and not math.isfinite(value)):
            return _Outcome(None, diverged=True)
        return None if value is None else _Outcome(value)
    points = series(run, endpoint.split, endpoint.mode, endpoint.metric, variant, x=endpoint.clock)
    if not points:
        return _Outcome(None, diverged=True) if lost else None
    assert endpoint.level is not None
    time = time_to_level(points, endpoint.level, log=endpoint.metric in LOSSES)
    return _Outcome(time.x, lost) if isinstance(time, Reached) else _Outcome(None, lost, time.at)


def _in_blocks(part: Part, cells: Sequence[Mapping[int, RunRecord]], seeds: Sequence[int]) -> list[list[float]]:
    """Effects by seed and block of the test examples; none unless every run logged its endpoint on the same blocks.

    Blocks are of one size, so that the mean of their effects is the effect; for logarithms it is not.
    """
    end = part.endpoint
    if end.kind != "chosen" or end.epoch != "best" or part.kind != "direction" or part.scale == "log":
        return []
    found = [
        [
            in_blocks(cell[seed], end.split, end.metric, place.get("variant", end.variant))
            for (_, place), cell in zip(part.contrast, cells, strict=True)
        ]
        for seed in seeds
    ]
    counts = {len(values) for row in found for values in row}
    if len(seeds) < 2 or len(counts) != 1 or min(counts) < 2:
        return []
    effects = []
    for row in found:
        sides = [_sides(part, values) for values in zip(*row, strict=True)]
        effects.append([plus - minus for plus, minus in sides])
    return effects


def _sides(part: Part, values: Sequence[float]) -> tuple[float, float]:
    """One seed's Σ over positive and Σ over negative weights; the effect is their difference."""
    scale = {"log": log_floored, "percent": lambda value: 100 * value, "linear": float}[part.scale]
    terms = [(weight, abs(weight) * scale(value)) for (weight, _), value in zip(part.contrast, values, strict=True)]
    plus = math.fsum(term for weight, term in terms if weight > 0)
    minus = math.fsum(term for weight, term in terms if weight < 0)
    # Equal up to rounding is a tie; left as it is, the same rounding error in every seed would be a certain effect.
    return plus, plus if math.isclose(plus, minus, rel_tol=1e-12) else minus


def _power(result: PartResult) -> str:
    """What this n could have shown, printed with every result that decides nothing."""
    return f"; n = {result.n} shows {_show(result.detectable)} with 80 % power"


def _wanted(seen: Estimate) -> str:
    assert seen.mean is not None and seen.sd is not None
    needed = seeds_needed(seen.mean, seen.sd, seen.level)
    return f"; about {needed} seeds would show the effect seen" if needed else "; not even 1000 seeds would"


def _percent(level: float) -> str:
    return f"{100 * level:.3g} %"


def _show(number: float | None) -> str:
    """Three digits, all of those before the point, with a typographic minus."""
    if number is None:
        return "none"
    return f"{number:.0f}".replace("-", "−") if 1000 <= abs(number) < 1e6 else f"{number:.3g}".replace("-", "−")


def _span(interval: Interval | None) -> str:
    return "without interval" if interval is None else f"[{_show(interval[0])}, {_show(interval[1])}]"
