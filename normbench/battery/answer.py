"""The answer of a battery: a word with its numbers for each experiment and opponent, and how often each was given."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from normbench.battery.trials import OPPONENTS, Trial
from normbench.compare import metrics
from normbench.compare.difference import (
    AHEAD,
    ALONE,
    ALPHA,
    BEHIND,
    FEWEST,
    SURVIVORS,
    UNDECIDED,
    UNEVEN,
    Difference,
    difference_of,
    judge,
)
from normbench.compare.metrics import Metric, format_metric
from normbench.runs.run import Run
from normbench.stats.series import final, log_floored, series
from normbench.stats.statistics import REACH, significant_signs

if TYPE_CHECKING:  # imports torch
    from normbench.battery.cost import Cost

BETTER, WORSE, NOT_YET = "better", "worse", "not yet"
WORDS = (BETTER, WORSE, UNDECIDED, NOT_YET)
OF_DIFFERENCES = {AHEAD: BETTER, BEHIND: WORSE, UNDECIDED: UNDECIDED}


@dataclass(frozen=True)
class Comparison:
    """The new normalizer's last value minus an opponent's by seed: of losses the log of the ratio, of shares points.

    `not_yet`: why the numbers tell nothing; "" if they do.
    """

    quantity: str
    unit: str
    difference: Difference
    not_yet: str = ""

    @property
    def against(self) -> str:
        return self.difference.second

    @property
    def has_number(self) -> bool:
        return not self.not_yet and self.difference.interval is not None

    @property
    def gone(self) -> int | None:
        """The side whose runs all diverged, which decides without a number."""
        lost = self.difference.lost
        return lost.index(max(lost)) if self.difference.n == 0 == min(lost) and max(lost) >= FEWEST else None

    @property
    def word(self) -> str:
        if self.gone is not None:
            return (WORSE, BETTER)[self.gone]
        return NOT_YET if self.not_yet else OF_DIFFERENCES[self.difference.word]

    @property
    def needed(self) -> int | None:
        """Seeds that would show the effect; 0 if out of reach, None where it is decided or unknown."""
        d = self.difference
        if self.word != UNDECIDED:
            return None
        return d.needed if d.needed and d.needed <= REACH and d.why != SURVIVORS else 0

    @property
    def why(self) -> str:
        """The reason for no decision, or for one without a number."""
        d, sides = self.difference, ("its runs", f"the runs of {self.against}")
        if self.gone is not None:
            return f"all {sides[self.gone]} diverged"
        if self.word != UNDECIDED:
            return self.not_yet
        if d.why == SURVIVORS:
            return f"{d.lost[d.leader]} of {sides[d.leader]} diverged"
        if d.why == UNEVEN:
            return f"{d.n} seeds against {d.most}"
        seeds = f"about {self.needed} seeds would show it" if self.needed else f"out of reach (more than {REACH} seeds)"
        return f"significant alone, not after Holm's correction; {seeds}" if d.why == ALONE else seeds


@dataclass(frozen=True)
class Outcome:
    """One trial with its runs by normalizer, the comparisons (the chief metric's first), the cost of an update, and
    the reasons of failed runs."""

    trial: Trial
    runs: Mapping[str, Sequence[Run]]
    comparisons: Sequence[Comparison]
    costs: Mapping[str, Cost]
    failed: Mapping[str, str]

    @property
    def cost(self) -> Cost | None:
        """What an update costs with the new normalizer, which is the first of the trial's."""
        return self.costs.get(next(iter(self.trial.specs), ""))

    @property
    def chief(self) -> list[Comparison]:
        """The comparisons in the chief metric, one for each opponent."""
        return [c for c in self.comparisons if c.quantity == self.comparisons[0].quantity]


def quantities(runs: Sequence[Run]) -> list[tuple[str, Metric]]:
    """(split, metric) of what the last evaluation logged: of the test split, or else the monitored one, then of train.

    The first is the chief one: the first share, since it needs no unit, else the first that the model declares. Numbers
    of which nothing says whether a lower or a higher one is better are none of them.
    """
    if not runs:
        return []
    logged = metrics.logged([*runs])
    logged_numbers = []
    for split in dict.fromkeys(("test" if "test" in logged else runs[0].monitor["split"], "train")):
        at_the_end = [
            m
            for m in logged.get(split, ())
            if m.better and any(final(run, split, "eval", m.name) is not None for run in runs)
        ]
        logged_numbers += [(split, m) for m in sorted(at_the_end, key=lambda m: m != metrics.chief(at_the_end))]
    return logged_numbers


def comparisons(name: str, trial: Trial, runs: Mapping[str, Sequence[Run]]) -> list[Comparison]:
    """For each quantity the difference from each opponent; `runs`: normalizer -> finished runs of the trial."""
    opponents = [norm for norm in trial.specs if norm != name]
    compared = quantities([run for of_norm in runs.values() for run in of_norm])
    if not compared:
        return [Comparison("", "", difference_of({}, {}, (name, other)), f"0 of {FEWEST} seeds") for other in opponents]
    return [_compare(*quantity, (name, other), runs[name], runs[other]) for quantity in compared for other in opponents]


def _compare(
    split: str, metric: Metric, names: tuple[str, str], ours: Sequence[Run], theirs: Sequence[Run]
) -> Comparison:
    first, second = (_finals(runs, split, metric) for runs in (ours, theirs))
    lost = len(ours) - len(first), len(theirs) - len(second)
    difference = difference_of(first, second, names, bool(metric.rising), lost)
    not_yet = "all seeds alike" if difference.flat else ""
    if difference.n < FEWEST:
        not_yet = f"{difference.n} of {FEWEST} seeds{f', {sum(lost)} diverged' if any(lost) else ''}"
    elif not any(_learned(runs, split, metric) for runs in (ours, theirs)):
        not_yet = "at chance: no better than before training"
    unit = "log ratio" if metric.loss else metric.step_unit or "difference"
    return Comparison(format_metric(split, metric.name), unit, difference, not_yet)


def _finals(runs: Sequence[Run], split: str, metric: Metric) -> dict[int, float]:
    values = {run.seed: final(run, split, "eval", metric.name) for run in runs if run.status == "done"}
    return {
        seed: log_floored(value) if metric.loss else metric.factor * value
        for seed, value in values.items()
        if value is not None and math.isfinite(value)
    }


def _learned(runs: Sequence[Run], split: str, metric: Metric) -> bool:
    """Whether the last values are better than those before training, by t over seeds."""
    curves = [dict(series(run, split, "eval", metric.name, x="step")) for run in runs if run.status == "done"]
    gains = [curve[max(curve)] - curve[0] for curve in curves if 0 in curve]
    return significant_signs([gains], ALPHA) == [1 if metric.rising else -1]


# --- words -----------------------------------------------------------------------------------------------------------


def decide(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The outcomes with a word for each comparison in a chief metric, the most important outcome first.

    The comparisons with one opponent share Holm's adjustment. First come outcomes with the most decided comparisons,
    then with the most undecided ones; among equals the surest difference.
    """
    words: dict[int, Comparison] = {}  # by the identity of the comparison before it had one
    for other in dict.fromkeys(c.against for outcome in outcomes for c in outcome.chief):
        family = [c for outcome in outcomes for c in outcome.chief if c.against == other and not c.not_yet]
        judged = judge([c.difference for c in family])
        words |= {id(c): replace(c, difference=d) for c, d in zip(family, judged, strict=True)}
    decided = [replace(o, comparisons=[words.get(id(c), c) for c in o.comparisons]) for o in outcomes]
    return sorted(decided, key=_importance)


def _importance(outcome: Outcome) -> tuple[int, int, float]:
    given = [c.word for c in outcome.chief]
    surest = min((p for c in outcome.chief if (p := c.difference.holm) is not None), default=1.0)
    return -given.count(BETTER) - given.count(WORSE), -given.count(UNDECIDED), surest


def counts(outcomes: Sequence[Outcome]) -> dict[str, dict[str, int]]:
    """For each opponent how many experiments have each word."""
    by_opponent: dict[str, dict[str, int]] = {}
    for c in (c for outcome in outcomes for c in outcome.chief):
        by_opponent.setdefault(c.against, dict.fromkeys(WORDS, 0))[c.word] += 1
    return {other: by_opponent[other] for other in OPPONENTS if other in by_opponent}


def headlines(outcomes: Sequence[Outcome]) -> list[str]:
    """For each opponent `against layer: better in 2, worse in 1, undecided in 8 of 19 experiments; not yet in 8`."""
    lines = []
    for other, of_word in counts(outcomes).items():
        total = sum(of_word.values())
        words = ", ".join(f"{word} in {of_word[word]}" for word in (BETTER, WORSE, UNDECIDED))
        later = f"; {NOT_YET} in {of_word[NOT_YET]}" if of_word[NOT_YET] else ""
        lines.append(f"against {other}: {words} of {total} experiment{'' if total == 1 else 's'}{later}")
    return lines
