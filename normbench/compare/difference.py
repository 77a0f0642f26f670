"""The difference of two arms, and the rule that gives it a word: `compare` and the battery share both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from normbench.draw.tables import format_estimate
from normbench.papers.rules_file import ALPHA, FEWEST, POWER
from normbench.stats.effects import Effects
from normbench.stats.statistics import REACH, Interval, detectable_effect, holm, seeds_needed

AHEAD, BEHIND, UNDECIDED = "ahead", "behind", "undecided"
# reasons for no word
ALONE, ALIKE, FEW, SURVIVORS, UNDIRECTED = "alone", "alike", "few", "survivors", "undirected"
UNEVEN, CHOSEN, SHORT = "uneven", "chosen", "short"
LEAST = 0.8  # of the median length of logged runs: with one that ends before it there is no word
MOST_UNEVEN = 2  # times as many runs on one side: beyond it Welch's test has no word (results/check/judge_null.md)
HOPELESS = (UNDIRECTED, CHOSEN, SHORT)  # of these more seeds would not help
Values = Mapping[int, float | None]  # by seed; None without a number


@dataclass(frozen=True, kw_only=True)
class Difference(Effects):
    """The effects of a first arm against a second one, in the unit of the page, and its word.

    `rising`: whether higher is better; None where nothing says so. `lost`: the diverged runs of each side. `tests`: how
    many share Holm's adjustment, `holm`: p after it. `word`: of the first against the second; `why`: the reason for no
    word, "" for a lack of power.
    """

    first: str = ""
    second: str = ""
    rising: bool | None = False
    lost: tuple[int, int] = (0, 0)
    tests: int = 1
    holm: float | None = None
    word: str = UNDECIDED
    why: str = ""

    @property
    def interval(self) -> Interval | None:
        return self.mean_interval(1 - ALPHA)

    @property
    def leader(self) -> int:
        """The side with the better mean: 0 the first, 1 the second."""
        return int(((self.mean or 0.0) > 0) != bool(self.rising))

    @cached_property
    def detectable(self) -> float | None:
        """The effect that this many seeds detect with 80 % power at the level ALPHA / tests."""
        if not self.sd or self.flat or self.why in HOPELESS:
            return None
        return detectable_effect(self.sd, self.n, 1 - ALPHA / self.tests, POWER)

    @cached_property
    def needed(self) -> int | None:
        """The number of seeds that would detect the observed difference, at the same power and level."""
        if not self.sd or self.detectable is None:
            return None
        return seeds_needed(self.mean or 0.0, self.sd, 1 - ALPHA / self.tests, POWER)

    @property
    def reversed(self) -> Difference:
        """Second minus first, by the same test."""
        return replace(
            self,
            first=self.second,
            second=self.first,
            pairs=tuple((-high, -low) for low, high in self.pairs),
            groups=self.groups[::-1],
            sides=tuple((minus, plus) for plus, minus in self.sides),
            lost=self.lost[::-1],
            word={AHEAD: BEHIND, BEHIND: AHEAD}.get(self.word, self.word),
        )

    def because(self, unit: str = "") -> str:
        """Why there is no word; "" where there is a word, or no reason is known."""
        counts, leader = f"{self.n} seeds against {self.most}", (self.first, self.second)[self.leader]
        reasons = {
            FEW: f"n = {self.n}: no verdict",
            ALIKE: "all seeds alike: a spread of zero decides nothing",
            ALONE: "significant alone, not after Holm's correction",
            UNDIRECTED: "no verdict: nothing says which way is better",
            UNEVEN: f"{counts}: no verdict where one side has more than {MOST_UNEVEN} times as many",
            SHORT: f"no verdict: a run ends before {100 * LEAST:g} % of the median length",
            CHOSEN: "no verdict: the best evaluation is chosen on the split that is compared",
            SURVIVORS: f"{self.lost[self.leader]} diverged of {leader}: its mean is one of survivors",
        }
        if self.word != UNDECIDED or self.why or self.detectable is None:
            return reasons.get(self.why, "")
        detectable = f"{format_estimate(self.detectable, None)}{unit and f' {unit}'}"
        text = f"{self.n} seeds detect a difference of {detectable} with {100 * POWER:.0f} % power"
        if self.needed is None or self.needed <= self.n:
            return text
        far = f"out of reach (more than {REACH} seeds)"
        return f"{text}; {far if self.needed > REACH else f'about {self.needed} seeds would detect the one found'}"


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
    named = Difference(first=names[0], second=names[1], rising=rising, lost=lost)
    if a and a.keys() == b.keys():
        sides = tuple((a[seed], b[seed]) for seed in sorted(a))
        return replace(named, sides=sides, pairs=tuple((x - y, x - y) for x, y in sides))
    groups = (tuple((number, number) for number in side.values()) for side in (a, b))
    return replace(named, groups=tuple(groups))


def judge(differences: Sequence[Difference]) -> list[Difference]:
    """The differences with Holm's p over all of them, and a word each."""
    tested = [d for d in differences if d.p is not None]
    adjusted = dict(zip(map(id, tested), holm([d.p for d in tested if d.p is not None]), strict=True))
    family = max(1, len(tested))
    return [_judge_one(replace(d, holm=adjusted.get(id(d)), tests=family)) for d in differences]


def _judge_one(d: Difference) -> Difference:
    """A word needs FEWEST seeds a side, no side with more than MOST_UNEVEN times as many as the other, and, after
    Holm's adjustment, an interval that excludes 0.

    Seeds without any spread have no interval and no word. A side that lost runs is never ahead, because its mean is one
    of survivors.
    """
    if d.rising is None:
        return replace(d, why=UNDIRECTED)
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
