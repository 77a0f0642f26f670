"""Two arms held against each other: a difference with its interval, its p, and the word that these allow.

Of pairs with the same seed, else by Welch of all seeds, which is said. A word needs 5 seeds a side and an interval that
excludes 0, after Holm's adjustment; seeds that all say the same have no interval, and no word.
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
ROUNDING = 1e-12  # of the largest number: a narrower interval is that of numbers without spread
Numbers = Mapping[int, float]  # by seed, finite ones alone


@dataclass(frozen=True)
class Difference:
    """First minus second, in the shown unit; p of no difference, and adjusted by Holm for those told with it.

    `word`: of the first against the second; `why` where a word is withheld for another reason than power. `sd`: of one
    pair; two groups have no single spread. `most`: seeds of the larger side. `told`: how many share Holm's adjustment.
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
    told: int = 1

    @functools.cached_property
    def detectable(self) -> float | None:
        """What so many seeds show with 80 % power, whatever becomes of the others that share the adjustment."""
        return detectable_effect(self.sd, self.n, 1 - ALPHA / self.told, POWER) if self.sd else None

    @functools.cached_property
    def needed(self) -> int | None:
        """Seeds that would show the difference seen, as above."""
        return seeds_needed(self.mean or 0.0, self.sd, 1 - ALPHA / self.told, POWER) if self.sd else None

    @property
    def turned(self) -> Difference:
        """Second minus first, of the same test."""
        return replace(
            self,
            first=self.second,
            second=self.first,
            mean=None if self.mean is None else -self.mean,
            interval=self.interval and (-self.interval[1], -self.interval[0]),
            word={AHEAD: BEHIND, BEHIND: AHEAD}.get(self.word, self.word),
        )

    def because(self, unit: str = "") -> str:
        """Why there is no word; "" where there is one, or nothing to say."""
        return "" if self.word != UNDECIDED else self.why or _power(self, unit)

    def text(self, unit: str = "") -> str:
        """`-0.62 [-1.01, -0.23] points`, and that seeds are not paired, or that one side has more of them."""
        if self.mean is None:
            return ""
        if self.interval is None:
            return f"{number(self.mean, abs(self.mean) / 50)}{unit and f' {unit}'} (n = {self.n})"
        mean, low, high = alike(self.mean, *self.interval)
        seeds = ", unpaired" if not self.paired else f", {self.n} pairs" if self.n < self.most else ""
        return f"{mean} [{low}, {high}]{unit and f' {unit}'}{seeds}"


def held_against(
    first: Mapping[int, float | None], second: Mapping[int, float | None], names: tuple[str, str] = ("", "")
) -> Difference:
    """first − second over pairs of equal seeds; by Welch over all where they share fewer than the smaller side has.

    No word yet: see `worded`.
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
    """The same with Holm's p over all of them, and a word each.

    `lost`: diverged runs by arm; an arm that lost some is never ahead, as its mean is one of survivors.
    """
    known = [place for place, d in enumerate(differences) if d.p is not None]
    adjusted = dict(zip(known, holm([differences[place].p or 0.0 for place in known]), strict=True))
    return [_judge_one(d, adjusted.get(place), max(1, len(known)), lost, rising) for place, d in enumerate(differences)]


def _judge_one(d: Difference, adjusted: float | None, told: int, lost: Mapping[str, int], rising: bool) -> Difference:
    d = replace(d, holm=adjusted, told=told)
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
    shown = f"{number(d.detectable, d.detectable / 5)}{unit and f' {unit}'}"
    told = f"n = {d.n} shows {shown} with {100 * POWER:.0f} % power"
    if d.needed is not None and d.needed > d.n:
        far = f"out of reach (more than {REACH} seeds)"
        told += f"; {far}" if d.needed > REACH else f"; about {d.needed} seeds would show the difference seen"
    return told


def describe_difference(d: Difference, unit: str) -> str:
    """Of one with a word: `batch is ahead of none (-1.8 [-2.9, -0.7] points)`."""
    return f"{d.first} is {'ahead of' if d.word == AHEAD else 'behind'} {d.second} ({d.text(unit)})"


def as_json(d: Difference) -> dict[str, Any]:
    return {
        "first": d.first, "second": d.second, "paired": d.paired, "n": d.n, "mean": d.mean, "interval": d.interval,
        "p": d.p, "holm": d.holm, "word": d.word, "why": d.because(), "detectable": d.detectable, "needed": d.needed,
        "text": d.text(),
    }  # fmt: skip
