"""What the runs show of one part of a claim: each seed's effect, and the intervals that the rules ask for."""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from normbench.papers.claims import Part
from normbench.papers.endpoints import Bounds
from normbench.stats.examples import Spread
from normbench.stats.statistics import Interval, median_interval, prediction_interval, t_interval


@dataclass(frozen=True)
class Observed:
    """The observations of one part at one setting, for `rules` and for pages.

    `gap` is "not run" or "not decidable here" where there are no observations; `complete`: all planned seeds are there;
    `planned`: the look at them was planned, else nothing is negligible or equivalent; `fresh`: the seeds had not been
    seen when the smallest effect was declared; `whole`: every seed has a number; unless both are true nothing is
    negligible. Intervals are None if n is too small, a run has no number or the spread is zero.
    """

    part: Part
    gap: str = ""
    why: str = ""  # of the gap, a key of `describe.WHY`
    about: tuple[str, ...] = ()  # the cells, runs or numbers that `why` speaks of
    complete: bool = False
    planned: bool = True
    fresh: bool = True
    delta: float | None = None
    exact: bool | None = None
    effects: tuple[Bounds, ...] = ()
    sides: tuple[tuple[float, float], ...] = ()  # per seed the two terms of the effect, where both are numbers
    spread: Spread | None = None
    number: float | None = None  # of an exact part
    censored: int = 0
    diverged: int = 0
    seeds: tuple[int, ...] = ()
    least: int = 0
    cells: tuple[Mapping[str, Any], ...] = ()
    runs: tuple[str, ...] = ()
    numbers: tuple[float, ...] = field(init=False)

    def __post_init__(self) -> None:
        numbers = tuple(low for low, high in self.effects if low == high and math.isfinite(low))
        object.__setattr__(self, "numbers", numbers)

    @property
    def whole(self) -> bool:
        """Whether every seed has a number."""
        return bool(self.effects) and len(self.numbers) == len(self.effects)

    @functools.cached_property
    def flat(self) -> bool:
        """All seeds have the same effect up to rounding: a spread of zero decides nothing."""
        if not self.whole or len(self.effects) < 2:
            return False
        largest = max(abs(number) for numbers in (self.numbers, *self.sides) for number in numbers)
        return max(self.numbers) - min(self.numbers) <= 1e-12 * largest

    @property
    def effect(self) -> float | None:
        """Mean, or median where the sign test decides; None where a seed without a number leaves it open."""
        if self.number is not None or not self.whole:
            return self.number
        if self.part.test == "sign":
            return statistics.median(self.numbers)
        return self.spread.mean if self.spread else t_interval(self.numbers).mean

    def interval(self, level: float) -> Interval | None:
        """Two-sided, of the mean effect, or of its median where the sign test decides."""
        if self.flat or not self.effects:
            return None
        if self.part.test == "sign":
            low, high = zip(*self.effects, strict=True)
            return median_interval(low, high, level)
        if not self.whole:
            return None
        return self.spread.interval(level) if self.spread else t_interval(self.numbers, level).interval

    def prediction(self, level: float) -> Interval | None:
        """Of one more run."""
        return prediction_interval(self.numbers, level) if self.whole and not self.flat else None

    @property
    def sd(self) -> float | None:
        """The spread of one seed's effect that gives an interval like ours."""
        if not self.whole or len(self.numbers) < 2:
            return None
        if self.spread and self.spread.variance > 0:
            return max(math.sqrt(self.spread.variance * len(self.numbers)), statistics.stdev(self.numbers))
        return statistics.stdev(self.numbers)

    @property
    def signs(self) -> tuple[int, int]:
        """How many seeds are surely above zero, and below it."""
        return sum(low > 0 for low, _ in self.effects), sum(high < 0 for _, high in self.effects)
