"""What a comparison measured: the effect of each pair, or the numbers of two groups that form no pairs.

Claims, `compare`, the battery and `judge` ask this class for means and intervals: Student's t over the pairs, or over
pairs and test examples; Welch's over two groups; the exact sign test of pairs where runs have no number.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from normbench.stats.statistics import (
    Estimate,
    Interval,
    median_interval,
    p_value,
    prediction_interval,
    t_interval,
    welch,
)

if TYPE_CHECKING:  # imports numpy
    from normbench.stats.examples import Spread

Bounds = tuple[float, float]  # of a number: itself twice; an end at infinity where a run has none
ROUNDING = 1e-12  # times the largest number: a smaller spread belongs to numbers that are alike


@dataclass(frozen=True, kw_only=True)
class Effects:
    """First minus second. Either `pairs`, the effect of each, or `groups`, the numbers of both sides.

    `sides`: the two terms of each pair, where both are numbers. `spread`: over seeds and test examples. Means and
    intervals are None where n is too small or a run has no number; intervals also where the spread is zero.
    """

    pairs: tuple[Bounds, ...] = ()
    groups: tuple[tuple[Bounds, ...], ...] = ()
    sides: tuple[tuple[float, float], ...] = ()
    spread: Spread | None = None

    @property
    def paired(self) -> bool:
        return not self.groups

    @property
    def bounds(self) -> tuple[tuple[Bounds, ...], ...]:
        return self.groups or (self.pairs,)

    @cached_property
    def samples(self) -> list[tuple[float, ...]]:
        """The numbers of the pairs, or of both groups; of runs without one there is none."""
        return [_numbers(sample) for sample in self.bounds]

    @property
    def numbers(self) -> tuple[float, ...]:
        """Of the pairs that have one."""
        return self.samples[0] if self.paired else ()

    @property
    def n(self) -> int:
        """Pairs, or runs of the smaller group."""
        return min(map(len, self.bounds))

    @property
    def most(self) -> int:
        """Pairs, or runs of the larger group."""
        return max(map(len, self.bounds))

    @cached_property
    def whole(self) -> bool:
        """Whether there are runs on both sides, and each has a number."""
        return self.n > 0 and sum(map(len, self.samples)) == sum(map(len, self.bounds))

    @cached_property
    def flat(self) -> bool:
        """Whether all pairs, or all runs of each group, have the same number up to rounding: that decides nothing."""
        if not self.whole or self.most < 2:
            return False
        largest = max(abs(number) for numbers in (*self.samples, *self.sides) for number in numbers)
        # squares of smaller numbers than 1e-150 are 0, which would look like certainty
        return all(max(sample) - min(sample) <= ROUNDING * largest + 1e-150 for sample in self.samples)

    @property
    def mean(self) -> float | None:
        if not self.whole:
            return None
        return self.spread.mean if self.spread else self._estimate().mean

    @property
    def median(self) -> float | None:
        """Of the pairs."""
        return statistics.median(self.numbers) if self.whole else None

    def mean_interval(self, level: float) -> Interval | None:
        if not self.whole or self.flat:
            return None
        return self.spread.interval(level) if self.spread else self._estimate(level).interval

    def median_interval(self, level: float) -> Interval | None:
        """That of the sign test, which needs no number of every run."""
        if self.flat or not self.pairs:
            return None
        low, high = zip(*self.pairs, strict=True)
        return median_interval(low, high, level)

    def prediction(self, level: float) -> Interval | None:
        """Of one more pair."""
        return prediction_interval(self.numbers, level) if self.paired and self.whole and not self.flat else None

    @property
    def p(self) -> float | None:
        """Of no difference, by the t of the interval over seeds."""
        return p_value(self._estimate()) if self.whole and not self.flat else None

    @property
    def sd(self) -> float | None:
        """Of one pair, that which gives an interval like ours; or of the difference of one run of each group."""
        if not self.whole or self.n < 2:
            return None
        alone = math.hypot(*map(statistics.stdev, self.samples))
        if self.spread and self.spread.variance > 0:
            return max(math.sqrt(self.spread.variance * self.n), alone)
        return alone

    @property
    def signs(self) -> tuple[int, int]:
        """How many pairs are surely above zero, and below it."""
        return sum(low > 0 for low, _ in self.pairs), sum(high < 0 for _, high in self.pairs)

    def _estimate(self, level: float = 0.95) -> Estimate:
        return t_interval(self.samples[0], level) if self.paired else welch(self.samples[0], self.samples[1], level)


def _numbers(sample: Sequence[Bounds]) -> tuple[float, ...]:
    return tuple(low for low, high in sample if low == high and math.isfinite(low))
