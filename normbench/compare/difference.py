"""The difference of two arms, and the rule that gives it a word: `compare` and the battery share both."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from normbench.papers.rules_file import ALPHA, FEWEST, POWER
from normbench.stats.statistics import detectable_effect, holm, p_value, paired, seeds_needed, welch

AHEAD, BEHIND, UNDECIDED = "ahead", "behind", "undecided"
# reasons for no word
ALONE, ALIKE, FEW, SURVIVORS, UNDIRECTED = "alone", "alike", "few", "survivors", "undirected"
UNEVEN, CHOSEN, SHORT = "uneven", "chosen", "short"
LEAST = 0.8  # of the median length of logged runs: with one that ends before it there is no word
MOST_UNEVEN = 2  # times as many runs on one side: beyond it Welch's test has no word (results/check/judge_null.md)
ROUNDING = 1e-12  # times the largest number: a narrower interval belongs to numbers without spread
Values = Mapping[int, float | None]  # by seed; None without a number


@dataclass(frozen=True)
class Difference:
    """First minus second, in the unit of the page; p of no difference, and p adjusted by Holm for its family of tests.

    `rising`: whether higher is better; None where nothing says so. `lost`: the diverged runs of each side. `sd`: of one
    pair, also of two runs that are none. `n`: seeds of the smaller side, `most`: of the larger one. `word`: of the
    first against the second; `why`: the reason for no word, "" for a lack of power. `tests`: how many share Holm's
    adjustment.
    """

    first: str
    second: str
    paired: bool
    n: int
    mean: float | None
    interval: tuple[float, float] | None
    p: float | None
    sd: float | None = None
    most: int = 0
    rising: bool | None = False
    lost: tuple[int, int] = (0, 0)
    holm: float | None = None
    word: str = UNDECIDED
    why: str = ""
    tests: int = 1

    @property
    def leader(self) -> int:
        """The side with the better mean: 0 the first, 1 the second."""
        return int(((self.mean or 0.0) > 0) != bool(self.rising))

    @cached_property
    def detectable(self) -> float | None:
        """The effect that this many seeds detect with 80 % power at the level ALPHA / tests."""
        return detectable_effect(self.sd, self.n, 1 - ALPHA / self.tests, POWER) if self.sd else None

    @cached_property
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
            lost=self.lost[::-1],
            word={AHEAD: BEHIND, BEHIND: AHEAD}.get(self.word, self.word),
        )


def difference_of(
    first: Values,
    second: Values,
    names: tuple[str, str] = ("", ""),
    rising: bool | None = False,
    lost: tuple[int, int] = (0, 0),
) -> Difference:
    """first − second over pairs of equal seeds where both sides have numbers for the same seeds; else by Welch over all
    numbers, because pairs would leave some out.

    No word yet: see `judge`.
    """
    a, b = ({seed: v for seed, v in values.items() if v is not None} for values in (first, second))
    pairs = bool(a) and a.keys() == b.keys()
    if pairs:
        estimate = paired([a[seed] for seed in sorted(a)], [b[seed] for seed in sorted(a)], 1 - ALPHA)
    else:
        estimate = welch(list(a.values()), list(b.values()), 1 - ALPHA)
        if min(len(a), len(b)) > 1:
            estimate = replace(estimate, sd=math.hypot(statistics.stdev(a.values()), statistics.stdev(b.values())))
    interval, largest = estimate.interval, max(map(abs, [*a.values(), *b.values()]), default=0.0)
    if interval and interval[1] - interval[0] <= ROUNDING * largest:
        estimate = replace(estimate, interval=None, sd=None)  # and so no p, which would be 0 or 1
    return Difference(
        *names, pairs, estimate.n, estimate.mean, estimate.interval, p_value(estimate), estimate.sd,
        max(len(a), len(b)), rising, lost,
    )  # fmt: skip


def judge(differences: Sequence[Difference]) -> list[Difference]:
    """The differences with Holm's p over all of them, and a word each."""
    tested = [d.p for d in differences if d.p is not None]
    adjusted = iter(holm(tested))
    return [
        _judge_one(replace(d, holm=None if d.p is None else next(adjusted), tests=max(1, len(tested))))
        for d in differences
    ]


def _judge_one(d: Difference) -> Difference:
    """A word needs FEWEST seeds a side, no side with more than MOST_UNEVEN times as many as the other, and, after
    Holm's adjustment, an interval that excludes 0.

    Seeds without any spread have no interval and no word. A side that lost runs is never ahead, because its mean is one
    of survivors.
    """
    if d.rising is None:
        return replace(d, why=UNDIRECTED, sd=None)  # more seeds would not help
    if d.n < FEWEST:
        return replace(d, why=FEW)
    if d.most > MOST_UNEVEN * d.n:
        return replace(d, why=UNEVEN)
    if d.holm is None or d.p is None:
        return replace(d, why=ALIKE)
    if d.holm > ALPHA:
        return replace(d, why=ALONE if d.p <= ALPHA else "")
    if d.lost[d.leader]:
        return replace(d, why=SURVIVORS)
    return replace(d, word=(AHEAD, BEHIND)[d.leader])
