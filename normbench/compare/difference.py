"""The difference of two arms with its interval, its p, and the word that these allow.

Runs are paired by seed where possible, else compared by Welch's test, and the text says which. A word needs 5 seeds a
side and, after Holm's adjustment, an interval that excludes 0; seeds without any spread have no interval and no word.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from normbench.draw.tables import alike, number
from normbench.papers.rules import ALPHA, FEWEST, POWER
from normbench.stats.statistics import REACH, detectable_effect, holm, p_value, paired, seeds_needed, welch

AHEAD, BEHIND, UNDECIDED = "ahead", "behind", "undecided"
ROUNDING = 1e-12  # times the largest number: a narrower interval belongs to numbers without spread
Numbers = Mapping[int, float]  # by seed, finite ones alone


@dataclass(frozen=True)
class Difference:
    """First minus second, in the unit of the page; p of no difference, and p adjusted by Holm for its family of tests.

    `word`: of the first against the second; `why`: the reason for no word, unless it is power alone. `sd`: of one
    pair; two groups have no single spread. `most`: seeds of the larger side. `tests`: how many share Holm's adjustment.
    """

    first: str
    second: str
    paired: bool
    n: int
    mean: float | None
    interval: tuple[float, float] | None
    p: float | None
    holm: float | None = None
    word: str = UNDECIDED
    why: str = ""
    sd: float | None = None
    most: int = 0
    tests: int = 1

    @functools.cached_property
    def detectable(self) -> float | None:
        """The effect that this many seeds detect with 80 % power at the level ALPHA / tests."""
        return detectable_effect(self.sd, self.n, 1 - ALPHA / self.tests, POWER) if self.sd else None

    @functools.cached_property
    def needed(self) -> int | None:
        """The number of seeds that would detect the observed difference, at the same power and level."""
        return seeds_needed(self.mean or 0.0, self.sd, 1 - ALPHA / self.tests, POWER) if self.sd else None

    @property
    def reversed(self) -> Difference:
        """Second minus first, by the same test."""
        return replace(
            self,
            first=self.second,
            second=self.first,
            mean=None if self.mean is None else -self.mean,
            interval=self.interval and (-self.interval[1], -self.interval[0]),
            word={AHEAD: BEHIND, BEHIND: AHEAD}.get(self.word, self.word),
        )

    def because(self, unit: str = "") -> str:
        """Why there is no word; "" where there is a word, or no reason is known."""
        return "" if self.word != UNDECIDED else self.why or _power(self, unit)

    def text(self, unit: str = "") -> str:
        """`-0.62 [-1.01, -0.23] points`, with a note where seeds are unpaired or one side has more of them."""
        if self.mean is None:
            return ""
        if self.interval is None:
            return f"{number(self.mean, abs(self.mean) / 50)}{unit and f' {unit}'} (n = {self.n})"
        mean, low, high = alike(self.mean, *self.interval)
        seeds = ", unpaired" if not self.paired else f", {self.n} pairs" if self.n < self.most else ""
        return f"{mean} [{low}, {high}]{unit and f' {unit}'}{seeds}"


def difference_of(
    first: Mapping[int, float | None], second: Mapping[int, float | None], names: tuple[str, str] = ("", "")
) -> Difference:
    """first − second over pairs of equal seeds; by Welch over all seeds if the smaller side has unpaired ones.

    No word yet: see `judge`.
    """
    a = {seed: v for seed, v in first.items() if v is not None}
    b = {seed: v for seed, v in second.items() if v is not None}
    shared = sorted(a.keys() & b.keys())
    pairs = bool(shared) and len(shared) == min(len(a), len(b))
    if pairs:
        estimate = paired([a[seed] for seed in shared], [b[seed] for seed in shared], 1 - ALPHA)
    else:
        estimate = welch(list(a.values()), list(b.values()), 1 - ALPHA)
    interval, largest = estimate.interval, max(map(abs, [*a.values(), *b.values()]), default=0.0)
    if interval and interval[1] - interval[0] <= ROUNDING * largest:
        estimate = replace(estimate, interval=None, sd=None)  # and so no p, which would be 0 or 1
    return Difference(
        *names, pairs, estimate.n, estimate.mean, estimate.interval, p_value(estimate), sd=estimate.sd,
        most=max(len(a), len(b)),
    )  # fmt: skip


def judge(differences: Sequence[Difference], lost: Mapping[str, int], rising: bool) -> list[Difference]:
    """The differences with Holm's p over all of them, and a word each.

    `lost`: diverged runs by arm; an arm that lost runs is never ahead, because its mean is one of survivors.
    """
    tested = [place for place, d in enumerate(differences) if d.p is not None]
    adjusted = dict(zip(tested, holm([differences[place].p or 0.0 for place in tested]), strict=True))
    return [
        _judge_one(d, adjusted.get(place), max(1, len(tested)), lost, rising) for place, d in enumerate(differences)
    ]


def _judge_one(d: Difference, adjusted: float | None, tests: int, lost: Mapping[str, int], rising: bool) -> Difference:
    d = replace(d, holm=adjusted, tests=tests)
    if d.n < FEWEST:
        return replace(d, why=f"n = {d.n}: no verdict")
    if d.interval is None:
        return replace(d, why="all seeds alike: a spread of zero decides nothing")
    if d.mean is None or adjusted is None or adjusted > ALPHA:
        alone = d.p is not None and adjusted is not None and d.p <= ALPHA
        return replace(d, why="an interval of its own excludes 0, adjusted for all pairs it does not" if alone else "")
    ahead = (d.mean > 0) == rising
    front = d.first if ahead else d.second
    if lost.get(front):
        return replace(d, why=f"{lost[front]} diverged of {front}: its mean is one of survivors")
    return replace(d, word=AHEAD if ahead else BEHIND)


def _power(d: Difference, unit: str) -> str:
    if d.detectable is None:
        return ""
    detectable = f"{number(d.detectable, d.detectable / 5)}{unit and f' {unit}'}"
    text = f"n = {d.n} shows {detectable} with {100 * POWER:.0f} % power"
    if d.needed is not None and d.needed > d.n:
        far = f"out of reach (more than {REACH} seeds)"
        text += f"; {far}" if d.needed > REACH else f"; about {d.needed} seeds would show the difference seen"
    return text


def describe_difference(d: Difference, unit: str) -> str:
    """A difference with a word: `batch is ahead of none (-1.8 [-2.9, -0.7] points)`."""
    return f"{d.first} is {'ahead of' if d.word == AHEAD else 'behind'} {d.second} ({d.text(unit)})"


def as_json(d: Difference) -> dict[str, Any]:
    return {
        "first": d.first, "second": d.second, "paired": d.paired, "n": d.n, "mean": d.mean, "interval": d.interval,
        "p": d.p, "holm": d.holm, "word": d.word, "why": d.because(), "detectable": d.detectable, "needed": d.needed,
        "text": d.text(),
    }  # fmt: skip
