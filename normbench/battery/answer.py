"""The answer of a battery: a word with its numbers for each experiment and opponent, and how often each was given."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from normbench.battery.trials import OPPONENTS, Trial
from normbench.compare import metrics
from normbench.compare.answer import ALPHA, FEWEST, POWER
from normbench.compare.metrics import Metric, format_metric
from normbench.runs.record import RunRecord
from normbench.stats.series import final, log_floored, series
from normbench.stats.statistics import REACH, Estimate, holm, p_value, paired, seeds_needed, significant_signs

if TYPE_CHECKING:  # imports torch
    from normbench.battery.cost import Cost

BETTER, WORSE, UNDECIDED, NOT_YET = WORDS = ("better", "worse", "undecided", "not yet")


@dataclass(frozen=True)
class Comparison:
    """The new normalizer's last value minus an opponent's by seed: of losses the log of the ratio, of shares points.

    `lost`: its runs that diverged, and the opponent's. `not_yet`: why the numbers tell nothing; "" if they do.
    `p`: after Holm's adjustment. `why`: the reason for no decision.
    `needed`: seeds that would show the effect; 0 if out of reach, None where it is decided or unknown.
    """

    quantity: str
    against: str
    unit: str
    rising: bool
    estimate: Estimate
    lost: tuple[int, int] = (0, 0)
    not_yet: str = ""
    word: str = NOT_YET
    why: str = ""
    p: float | None = None
    needed: int | None = None

    @property
    def has_number(self) -> bool:
        return not self.not_yet and self.estimate.interval is not None


@dataclass(frozen=True)
class Outcome:
    """One trial with its runs by normalizer, the comparisons (the chief metric's first), the cost of an update, and
    the reasons of failed runs."""

    trial: Trial
    runs: Mapping[str, Sequence[RunRecord]]
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


def quantities(runs: Sequence[RunRecord]) -> list[tuple[str, Metric]]:
    """(split, metric) of what the last evaluation logged: of the test split, or else the monitored one, then of train.

    The first is the chief one: the first share, since it needs no unit, else the first that the model declares.
    """
    if not runs:
        return []
    logged = metrics.logged([*runs])
    found = []
    for split in dict.fromkeys(("test" if "test" in logged else runs[0].monitor["split"], "train")):
        at_the_end = [m for m in logged.get(split, ()) if _logged_last(runs, split, m)]
        found += [(split, m) for m in sorted(at_the_end, key=lambda m: m != metrics.chief(at_the_end))]
    return found


def _logged_last(runs: Sequence[RunRecord], split: str, metric: Metric) -> bool:
    return any(final(run, split, "eval", metric.name) is not None for run in runs)


def comparisons(name: str, trial: Trial, runs: Mapping[str, Sequence[RunRecord]]) -> list[Comparison]:
    """For each quantity the paired difference from each opponent; `runs`: normalizer -> finished runs of the trial."""
    opponents = [norm for norm in trial.specs if norm != name]
    asked = quantities([run for own in runs.values() for run in own])
    if not asked:
        nothing = Estimate(None, None, 0.95, None, 0)
        few = f"0 of {FEWEST} seeds"
        return [Comparison("", other, "", False, nothing, not_yet=few) for other in opponents]
    return [_compare(*one, other, runs[name], runs[other]) for one in asked for other in opponents]


def _compare(
    split: str, metric: Metric, against: str, ours: Sequence[RunRecord], theirs: Sequence[RunRecord]
) -> Comparison:
    first, second = (_finals(runs, split, metric) for runs in (ours, theirs))
    seeds = sorted(first.keys() & second.keys())
    estimate = paired([first[seed] for seed in seeds], [second[seed] for seed in seeds])
    lost = len(ours) - len(first), len(theirs) - len(second)
    not_yet = "" if estimate.sd else "all seeds alike"
    if len(seeds) < FEWEST:
        not_yet = f"{len(seeds)} of {FEWEST} seeds{f', {sum(lost)} diverged' if any(lost) else ''}"
    elif not any(_learned(runs, split, metric, ALPHA) for runs in (ours, theirs)):
        not_yet = "at chance: no better than before training"
    unit = "log ratio" if metric.loss else metric.step_unit or "difference"
    return Comparison(format_metric(split, metric.name), against, unit, bool(metric.rising), estimate, lost, not_yet)


def _finals(runs: Sequence[RunRecord], split: str, metric: Metric) -> dict[int, float]:
    values = {run.seed: final(run, split, "eval", metric.name) for run in runs if run.status == "done"}
    return {
        seed: log_floored(value) if metric.loss else metric.factor * value
        for seed, value in values.items()
        if value is not None and math.isfinite(value)
    }


def _learned(runs: Sequence[RunRecord], split: str, metric: Metric, alpha: float) -> bool:
    """Whether the last values are better than those before training, by t over seeds."""
    curves = [dict(series(run, split, "eval", metric.name, x="step")) for run in runs if run.status == "done"]
    gains = [curve[max(curve)] - curve[0] for curve in curves if 0 in curve]
    return significant_signs([gains], alpha) == [1 if metric.rising else -1]


# --- words -----------------------------------------------------------------------------------------------------------


def decide(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The outcomes with a word for each comparison in a chief metric, the most important outcome first.

    The comparisons with one opponent share Holm's adjustment. First come outcomes with the most decided comparisons,
    then with the most undecided ones; among equals the surest difference.
    """
    words: dict[tuple[int, str], Comparison] = {}
    for other in dict.fromkeys(c.against for outcome in outcomes for c in outcome.chief):
        family = {i: c for i, outcome in enumerate(outcomes) for c in outcome.chief if c.against == other}
        for i, c in zip(family, _decide_family([*family.values()]), strict=True):
            words[i, other] = c
    decided = [
        replace(
            outcome,
            comparisons=[words[i, c.against] if c in outcome.chief else c for c in outcome.comparisons],
        )
        for i, outcome in enumerate(outcomes)
    ]
    return sorted(decided, key=_importance)


def _importance(outcome: Outcome) -> tuple[int, int, float]:
    given = [c.word for c in outcome.chief]
    surest = min((c.p for c in outcome.chief if c.p is not None), default=1.0)
    return -given.count(BETTER) - given.count(WORSE), -given.count(UNDECIDED), surest


def _decide_family(family: Sequence[Comparison]) -> list[Comparison]:
    tested = {i: p for i, c in enumerate(family) if not c.not_yet and (p := p_value(c.estimate)) is not None}
    adjusted = dict(zip(tested, holm([*tested.values()]), strict=True))
    return [_decide_one(c, adjusted.get(i), max(1, len(tested))) for i, c in enumerate(family)]


def _decide_one(c: Comparison, p: float | None, tests: int) -> Comparison:
    sides = ("its runs", f"the runs of {c.against}")
    if c.estimate.n == 0 and min(c.lost) == 0 and max(c.lost) >= FEWEST:
        ours = c.lost[0] > 0
        return replace(c, word=WORSE if ours else BETTER, why=f"all {sides[not ours]} diverged")
    if p is None:
        return replace(c, why=c.not_yet)
    mean, sd = c.estimate.mean or 0.0, c.estimate.sd or 0.0
    if p > ALPHA:
        needed = seeds_needed(mean, sd, 1 - ALPHA / tests, POWER, REACH)
        why = f"about {needed} seeds would show it" if needed else f"out of reach (more than {REACH} seeds)"
        if (p_value(c.estimate) or 0.0) <= ALPHA:
            why = f"significant alone, not after Holm's correction; {why}"
        return replace(c, word=UNDECIDED, p=p, why=why, needed=needed or 0)
    better = (mean > 0) == c.rising
    if lost := c.lost[not better]:  # a mean of survivors
        return replace(c, word=UNDECIDED, p=p, why=f"{lost} of {sides[not better]} diverged", needed=0)
    return replace(c, word=BETTER if better else WORSE, p=p)


def counts(outcomes: Sequence[Outcome]) -> dict[str, dict[str, int]]:
    """For each opponent how many experiments have each word."""
    found: dict[str, dict[str, int]] = {}
    for c in (c for outcome in outcomes for c in outcome.chief):
        found.setdefault(c.against, dict.fromkeys(WORDS, 0))[c.word] += 1
    return {other: found[other] for other in OPPONENTS if other in found}


def headlines(outcomes: Sequence[Outcome]) -> list[str]:
    """For each opponent `against layer: better in 2, worse in 1, undecided in 8 of 19 experiments; not yet in 8`."""
    lines = []
    for other, found in counts(outcomes).items():
        total = sum(found.values())
        words = ", ".join(f"{word} in {found[word]}" for word in (BETTER, WORSE, UNDECIDED))
        later = f"; {NOT_YET} in {found[NOT_YET]}" if found[NOT_YET] else ""
        lines.append(f"against {other}: {words} of {total} experiment{'' if total == 1 else 's'}{later}")
    return lines


def decided_when(outcome: Outcome, seeds: int) -> str:
    """When the comparisons with the opponents become decided, as far as the runs that are there tell."""
    found: dict[str, list[str]] = {}
    for c in outcome.chief:
        if c.word in (BETTER, WORSE):
            text = "decided"
        elif c.word == UNDECIDED:
            text = f"with about {c.needed} seeds" if c.needed else "out of reach"
        elif c.estimate.n >= FEWEST:
            text = f"never with these runs ({c.why})"
        else:
            text = "with these runs, at the earliest" if seeds >= FEWEST else f"with {FEWEST} seeds, at the earliest"
        found.setdefault(text, []).append(c.against)
    if len(found) == 1:
        return next(iter(found))
    return "; ".join(f"{', '.join(others)}: {text}" for text, others in found.items())
