"""How far a run's curve is from the same run trained again: to the byte, by rounding, as far as seeds are, or further.

Training amplifies rounding: another processor, torch or backend gives another curve, to which only the spread over
seeds can be compared. Where all of these are the same, any difference is one too many.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from normbench.eval_variants import DEFAULT, Variant, text
from normbench.runs.curve import Curve
from normbench.runs.record import PLACE, RunRecord, curve_sha256
from normbench.stats.statistics import prediction_interval

TO_THE_BYTE, ROUNDING, CHAOTIC, DIFFERENT = WORDS = (
    "to the byte", "rounding", "chaotic, inside the seeds' spread", "different"
)  # fmt: skip
# float32 rounds at 1.2e-7, and sums and updates add up to about a hundred of that: two makes of processor were 1e-15
# apart in float64 probes and 2e-6 after 2 500 updates of an LSTM; where training amplifies it, 4e-4 after one epoch.
BOUND = 1e-5
# The epsilon of float32: differences of smaller values are relative to it, for such values are what rounding left.
SMALLEST = 2.0**-23
LEVEL = 0.95  # with which a further seed has all its values in the intervals
RUNS = 4  # at least: the run itself and three other seeds
MACHINE = ("processor", "processor_signature", "torch", "instruction_set", "threads", "recurrent", "device")
Place = str  # of a record, as text


@dataclass(frozen=True)
class Gap:
    """A metric at one place in the run, as logged then and now; None where it was not evaluated there.

    `relative` to the larger of both, infinite where one is missing or not finite. `share`: how far the new value is
    from the middle of the prediction interval towards its end, at 1; None where it was not compared with `n` runs.
    """

    place: Mapping[str, Any]
    metric: str
    then: Any
    now: Any
    relative: float
    word: str
    share: float | None = None
    n: int = 0

    @property
    def variant(self) -> Variant:
        found: Variant = self.place.get("variant", DEFAULT)
        return found


@dataclass(frozen=True)
class Row:
    """One metric of one split and mode, over all evaluations, variants, orders and blocks.

    `values`: how many both curves have; `only_then`, `only_now`: one of them. `largest`: the gap with the largest
    relative difference, None without values; `first`: the first one that deserves the row's word. `beyond`: values that
    rounding does not explain; `judged`: those of them that could be compared with RUNS runs or more, the largest
    `share` of these, and the fewest runs, `n` (of all `beyond` where there are none).
    """

    split: str
    mode: str
    metric: str
    word: str
    values: int
    only_then: int
    only_now: int
    largest: Gap | None
    first: Gap | None
    beyond: int
    judged: int
    share: float | None
    n: int


@dataclass(frozen=True)
class RerunDiff:
    """The worst word of the rows; what of the environment is another, then and now, and what was not recorded then.

    `level`: of each prediction interval, so that a further seed has all its values inside with LEVEL (Bonferroni);
    `seeds`: of the runs that they are of. `ended`: as what, then and now. `first`: the first gap that deserves `word`.
    """

    word: str
    rows: Sequence[Row]
    changed: Mapping[str, tuple[Any, Any]]
    unrecorded: Sequence[str]
    level: float
    seeds: Sequence[int]
    ended: tuple[str, str]

    @property
    def deterministic(self) -> bool:
        """False if the same environment, recorded in full, gave another curve."""
        return self.word == TO_THE_BYTE or bool(self.changed or self.unrecorded)

    @property
    def first(self) -> Gap | None:
        gaps = [row.first for row in self.rows if row.word == self.word and row.first is not None]
        return min(gaps, key=lambda gap: int(gap.place["step"]), default=None)


def compare(then: RunRecord, now: RunRecord, others: Sequence[RunRecord]) -> RerunDiff:
    """`then` against `now`, its repetition, as far as that one goes; `others` differ from `then` in the seed alone.

    Prediction intervals are over `then` and `others`, of logarithms where all values are positive. They are those of a
    normal distribution: of the published runs, each held against the others of its cell, 90 % lie inside with all their
    values; errors at zero and losses that leap have longer tails. A repetition that is shorter has more at its last
    evaluation than the longer run had there: that is left out.
    """
    shorter, then = now.steps < then.steps, then.cut(now.steps)
    if shorter:
        places = {_place(record) for record in then.records}
        records = [record for record in now.records if record["step"] < now.steps or _place(record) in places]
        now = replace(now, records=Curve(records))
    changed, unrecorded = _environment(then, now)
    before, after = _values(then), _values(now)
    level = 1 - (1 - LEVEL) / max(1, len(before.keys() & after.keys()))
    explained = bool(unrecorded) or any(key in MACHINE for key in changed)
    judge = _Judge(before, after, [before, *map(_values, others)] if explained else [], level)
    rows = [judge.row(name) for name in dict.fromkeys(_row(*value) for value in (*before.values(), *after.values()))]
    ended = then.status, now.status
    word = max((row.word for row in rows), key=WORDS.index, default=TO_THE_BYTE)
    if ended[0] != ended[1]:
        word = DIFFERENT
    elif word == TO_THE_BYTE and curve_sha256(then.records) != curve_sha256(now.records):
        word = ROUNDING  # in another order
    seeds = sorted({then.seed, *(run.seed for run in others)})
    return RerunDiff(word, rows, changed, unrecorded, level, seeds, ended)


def _environment(then: RunRecord, now: RunRecord) -> tuple[dict[str, tuple[Any, Any]], list[str]]:
    """The changed parts of the environment that curves depend on, and those that the older run did not record.

    A run that was resumed in another environment had both.
    """
    resumed = [r for r in then.environment.get("resumed", ()) if r.get("step", 0) < now.steps]
    changed: dict[str, tuple[Any, Any]] = {}
    unrecorded = []
    for key in (*MACHINE, "data"):
        was = [then.environment.get(key), *(r["changed"][key] for r in resumed if key in r.get("changed", {}))]
        here = now.environment.get(key)
        if key in MACHINE:  # no word on the data means the official ones
            if was[0] is None and here is not None:
                unrecorded.append(key)
            was = [value for value in was if None not in (value, here)]
        other = [value for value in was if value != here]
        if other:
            changed[key] = other[0], here
    return changed, unrecorded


Logged = tuple[Mapping[str, Any], str]  # a record, and a metric in it
Values = dict[tuple[Place, str], Logged]


def _where(record: Mapping[str, Any]) -> dict[str, Any]:
    return {key: record[key] for key in PLACE if key in record}


def _place(record: Mapping[str, Any]) -> Place:
    return json.dumps(_where(record), sort_keys=True)


def _values(run: RunRecord) -> Values:
    placed = [(_place(record), record) for record in run.records]
    return {(place, metric): (record, metric) for place, record in placed for metric in record if metric not in PLACE}


def _row(record: Mapping[str, Any], metric: str) -> tuple[str, str, str]:
    return record["split"], record["mode"], metric


def _by_row(gaps: Iterable[Gap]) -> dict[tuple[str, str, str], list[Gap]]:
    found: dict[tuple[str, str, str], list[Gap]] = {}
    for gap in gaps:
        found.setdefault(_row(gap.place, gap.metric), []).append(gap)
    return found


def _kind(record: Mapping[str, Any], metric: str) -> tuple[str, ...]:
    return *_row(record, metric), text(record.get("variant", DEFAULT))


class _Judge:
    """Gaps of two curves, and rows of them. `runs`: those whose spread explains gaps; none where nothing does."""

    def __init__(self, then: Values, now: Values, runs: Sequence[Values], level: float) -> None:
        self.runs, self.level = runs, level
        self.steps = [{record["step"] for record, _ in values.values()} for values in (then, now)]
        self.kinds = [{_kind(*value) for value in values.values()} for values in (then, now)]
        self.gaps = {key: self._gap(key, then[key], now[key]) for key in then if key in now}
        beyond = (gap.place["step"] for gap in self.gaps.values() if gap.relative > BOUND)
        self.parted = min(beyond, default=math.inf)
        self.only_then = [self._alone(*then[key], then=True) for key in then if key not in now]
        self.only_now = [self._alone(*now[key], then=False) for key in now if key not in then]
        self.by_row = [_by_row(gaps) for gaps in (self.gaps.values(), self.only_then, self.only_now)]

    def _gap(self, key: tuple[Place, str], before: Logged, after: Logged) -> Gap:
        record, metric = before
        then, now = record[metric], after[0][metric]
        gap = Gap(_where(record), metric, then, now, 0.0, TO_THE_BYTE)
        if repr(then) == repr(now):
            return gap
        relative = _relative(float(then), float(now))
        if relative <= BOUND:
            return replace(gap, relative=relative, word=ROUNDING)
        if not self.runs or not math.isfinite(relative):
            return replace(gap, relative=relative, word=DIFFERENT)
        values = [float(run[key][0][metric]) for run in self.runs if key in run]
        values = [value for value in values if math.isfinite(value)]
        if len(values) < RUNS:
            return replace(gap, relative=relative, word=DIFFERENT, n=len(values))
        share = self._share(values, float(now))
        word = CHAOTIC if share <= 1 else DIFFERENT
        return replace(gap, relative=relative, word=word, share=share, n=len(values))

    def _share(self, values: Sequence[float], value: float) -> float:
        if min(*values, value) > 0:  # losses spread by factors
            values, value = [math.log(v) for v in values], math.log(value)
        interval = prediction_interval(values, self.level)
        assert interval is not None
        middle, half = (interval[0] + interval[1]) / 2, (interval[1] - interval[0]) / 2
        return abs(value - middle) / half if half else (0.0 if value == middle else math.inf)

    def _alone(self, record: Mapping[str, Any], metric: str, then: bool) -> Gap:
        """A value of one curve alone. Diverged curves are best, and evaluated more, at different evaluations."""
        step, other = record["step"], int(then)
        elsewhere = step in self.steps[other] and _kind(record, metric) in self.kinds[other]
        word = CHAOTIC if self.runs and elsewhere and self.parted <= step else DIFFERENT
        value = record[metric]
        return Gap(_where(record), metric, value if then else None, None if then else value, math.inf, word)

    def row(self, name: tuple[str, str, str]) -> Row:
        both, then, now = (gaps.get(name, []) for gaps in self.by_row)
        beyond = [gap for gap in both if gap.relative > BOUND]
        judged = [gap for gap in beyond if gap.share is not None]
        # at some places too few seeds have a value: the others decide
        counted = [gap for gap in (*both, *then, *now) if not (judged and 0 < gap.n < RUNS)]
        word = max((gap.word for gap in counted), key=WORDS.index, default=TO_THE_BYTE)
        deserving = [gap for gap in counted if gap.word == word != TO_THE_BYTE]
        return Row(
            *name,
            word=word,
            values=len(both),
            only_then=len(then),
            only_now=len(now),
            largest=max(both, key=lambda gap: gap.relative, default=None),
            first=min(deserving, key=lambda gap: int(gap.place["step"]), default=None),
            beyond=len(beyond),
            judged=len(judged),
            share=max((gap.share for gap in judged if gap.share is not None), default=None),
            n=min((gap.n for gap in judged or beyond), default=0),
        )


def _relative(then: float, now: float) -> float:
    """|now − then| over the larger of both, or over SMALLEST; infinite where one of them is not finite."""
    if not (math.isfinite(then) and math.isfinite(now)):
        return 0.0 if then == now or (math.isnan(then) and math.isnan(now)) else math.inf
    return abs(now - then) / max(abs(then), abs(now), SMALLEST)
