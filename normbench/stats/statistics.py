"""Intervals, tests and power for effects over seeds; the seed is the unit (Student 1908, Welch 1947, Schuirmann 1987).

Every function takes sequences of finite numbers and returns numbers in the same unit. scipy is imported late, because
commands that print published results must start fast.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import combinations

POWER = 0.8
Interval = tuple[float, float]


@dataclass(frozen=True)
class Estimate:
    """A mean with its two-sided interval at `level`; `sd` is the spread of one effect. None: n does not allow it.

    `freedom`: degrees of freedom of the interval's t.
    """

    mean: float | None
    interval: Interval | None
    level: float
    sd: float | None
    n: int
    freedom: float | None = field(default=None, compare=False)


def t_interval(values: Sequence[float], level: float = 0.95) -> Estimate:
    """mean ± t(n−1)·s/√n over seeds (Student 1908); n = 1 has no interval, n = 0 no mean, zero spread the point."""
    n = len(values)
    if n == 0:
        return Estimate(None, None, level, None, 0)
    mean, sd = moments(values)
    interval = None if sd is None else _around(mean, t_quantile(n - 1, level) * sd / math.sqrt(n))
    return Estimate(mean, interval, level, sd, n, freedom=None if interval is None else n - 1)


def rate_interval(values: Sequence[float], whole: float = 1.0, level: float = 0.95) -> Estimate:
    """The mean of rates between 0 and `whole`, with an interval that stays there: t on the logit of the mean.

    Its standard error there is that of the mean times the slope of the logit (the delta method). Values that are no
    rates have the interval of `t_interval`.
    """
    estimate = t_interval(values, level)
    mean = estimate.mean or 0.0
    if not estimate.sd or estimate.interval is None or min(values) < 0 or max(values) > whole or not 0 < mean < whole:
        return estimate
    half = (estimate.interval[1] - mean) * whole / (mean * (whole - mean))
    odds = mean / (whole - mean)
    low, high = (whole / (1 + math.exp(-end) / odds) for end in (-half, half))
    return replace(estimate, interval=(low, high))


def time_interval(values: Sequence[float], level: float = 0.95) -> Estimate:
    """The mean of times, which are not negative, with an interval above 0: t on the logarithm of the mean, as above."""
    estimate = t_interval(values, level)
    if not estimate.sd or estimate.interval is None or not estimate.mean:
        return estimate
    factor = math.exp((estimate.interval[1] - estimate.mean) / estimate.mean)
    return replace(estimate, interval=(estimate.mean / factor, estimate.mean * factor))


def welch(first: Sequence[float], second: Sequence[float], level: float = 0.95) -> Estimate:
    """mean(first) − mean(second) ± t(ν)·√(s₁²/n₁ + s₂²/n₂), ν after Welch–Satterthwaite (Welch 1947): unpaired seeds.

    `n` is the smaller group, `sd` is None (two groups have no single spread); a group below 2 gives no interval.
    """
    n = min(len(first), len(second))
    if n == 0:
        return Estimate(None, None, level, None, 0)
    (mean_1, sd_1), (mean_2, sd_2) = moments(first), moments(second)
    mean = mean_1 - mean_2
    if sd_1 is None or sd_2 is None:
        return Estimate(mean, None, level, None, n)
    part_1, part_2 = sd_1**2 / len(first), sd_2**2 / len(second)
    if part_1 + part_2 == 0:
        return Estimate(mean, (mean, mean), level, None, n)
    freedom = (part_1 + part_2) ** 2 / (part_1**2 / (len(first) - 1) + part_2**2 / (len(second) - 1))
    half = t_quantile(freedom, level) * math.sqrt(part_1 + part_2)
    return Estimate(mean, _around(mean, half), level, None, n, freedom=freedom)


def p_value(estimate: Estimate) -> float | None:
    """Two-sided p of no effect, by the t that made the interval; None without one, 0 or 1 where nothing varies."""
    if estimate.mean is None or estimate.interval is None:
        return None
    half = (estimate.interval[1] - estimate.interval[0]) / 2
    if half == 0 or estimate.freedom is None:
        return 1.0 if estimate.mean == 0 else 0.0
    from scipy.special import stdtr

    t = abs(estimate.mean) / half * t_quantile(estimate.freedom, estimate.level)
    return float(2 * stdtr(estimate.freedom, -t))


def holm(p_values: Sequence[float]) -> list[float]:
    """p adjusted for their number k, in the order given: max over the smaller of (k − rank)·p, at most 1 (Holm 1979).

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    ranked = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted, least = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(ranked):
        least = max(least, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = least
    return adjusted


def significant_signs(samples: Sequence[Sequence[float]], alpha: float) -> list[int | None]:
    """The sign of each sample's mean if t rejects 0 after Holm's adjustment for all samples, else 0.

    None where there are fewer than two values.

    >>> significant_signs([[1.0, 1.1], [-1.0, 2.0], [3.0]], 0.05)
    [0, 0, None]
    """
    estimates = [t_interval(sample, 1 - alpha) for sample in samples]
    p_values = [p for estimate in estimates if (p := p_value(estimate)) is not None]
    adjusted = iter(holm(p_values))
    return [
        None if e.interval is None or e.mean is None else 0 if next(adjusted) > alpha else 1 if e.mean > 0 else -1
        for e in estimates
    ]


def median_interval(low: Sequence[float], high: Sequence[float], level: float = 0.95) -> Interval | None:
    """Exact interval of the median between two order statistics, that of the sign test (Thompson 1936).

    Each value lies between its `low` and `high`, which are equal for an observed value and ±inf on a censored side.
    None where n is too small for `level` (below 6 at 95 %).
    """
    n = len(low)
    tail, rank = 0.0, 0
    while rank < n / 2 and (tail := tail + math.comb(n, rank) / 2**n) <= (1 - level) / 2 + 1e-12:
        rank += 1
    return (sorted(low)[rank - 1], sorted(high)[n - rank]) if rank else None


def prediction_interval(values: Sequence[float], level: float = 0.95) -> Interval | None:
    """mean ± t(n−1)·s·√(1 + 1/n): holds one further run with probability `level` (Hahn, Meeker 1991)."""
    e = t_interval(values, level)
    if e.mean is None or e.sd is None:
        return None  # one run has no spread to predict from
    return _around(e.mean, t_quantile(e.n - 1, level) * e.sd * math.sqrt(1 + 1 / e.n))


def within(interval: Interval | None, margin: float | None) -> bool:
    """Whether an interval lies inside ±margin: with that at 1 − 2α, two one-sided tests at α (Schuirmann 1987).

    False where either is None.
    """
    return interval is not None and margin is not None and -margin < interval[0] and interval[1] < margin


def detectable_effect(sd: float, n: int, level: float = 0.95, power: float = POWER) -> float | None:
    """Smallest |effect| that a two-sided t test at `level` detects with probability `power`, in the unit of `sd`.

    Solves P(|T| > t; n − 1, δ√n/s) = power for δ with the noncentral t (Cohen 1988); None below n = 2.
    """
    if n < 2:
        return None
    from scipy.optimize import brentq

    # The noncentrality for 80 % lies a little above the quantile itself; 3·t + 3 brackets it down to one degree.
    highest = 3 * t_quantile(n - 1, level) + 3
    noncentrality = brentq(lambda value: _detection(value, n, level) - power, 0.0, highest)
    return float(sd * noncentrality / math.sqrt(n))


REACH = 60  # seeds: what needs more is not worth its runs


def seeds_needed(
    effect: float, sd: float, level: float = 0.95, power: float = POWER, limit: int = 1000, fixed: float = 0.0
) -> int | None:
    """Smallest n at which an effect as large as the seen one is detected with `power`; None beyond `limit`.

    `fixed`: the part of the mean's variance that no number of seeds makes smaller, as that of the test examples.
    """
    if sd == 0 and fixed == 0:
        return None if effect == 0 else 2
    counts = range(2, limit + 1)
    index = bisect_left(counts, power, key=lambda n: _detection(abs(effect) / math.sqrt(sd**2 / n + fixed), n, level))
    return counts[index] if index < len(counts) else None


def signs_needed(share: float, alpha: float = 0.05, limit: int = 1000) -> int | None:
    """Smallest n at which the exact sign test shows with `POWER` that more pairs lie on one side, if a `share` of them
    does; None beyond `limit`.

    Power is P(X ≤ c), X ~ Binomial(n, min(share, 1 - share)), c the largest minority at which n pairs reject.
    """
    from scipy.special import bdtr

    minority, most = min(share, 1 - share), -1
    for n in range(1, limit + 1):
        while most + 1 < n / 2 and 2 * bdtr(most + 1, n, 0.5) <= alpha:  # never falls as n grows
            most += 1
        if most >= 0 and bdtr(most, n, minority) >= POWER:
            return n
    return None


def kendall(first: Sequence[float], second: Sequence[float]) -> float:
    """Kendall's tau-b between two rankings of the same things; NaN where one of them has no order.

    Of numbers alone: NaN would be a tie. Not by scipy.stats, which takes longer to import than all else that shows
    published results.
    """
    pairs = list(combinations(zip(first, second, strict=True), 2))
    signs = [(_sign(a - c), _sign(b - d)) for (a, b), (c, d) in pairs]
    ordered = [sum(sign != 0 for sign in of_ranking) for of_ranking in zip(*signs, strict=True)]
    if not ordered or not all(ordered):
        return math.nan
    tau = sum(a * b for a, b in signs) / math.sqrt(ordered[0]) / math.sqrt(ordered[1])
    return max(-1.0, min(1.0, tau))


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)


def sign_test(above: int, below: int) -> float:
    """Two-sided p of the exact sign test, min(1, 2·P(X ≤ min)), X ~ Binomial(above + below, 1/2); ties do not count."""
    n = above + below
    tail = sum(math.comb(n, k) for k in range(min(above, below) + 1))
    return min(1.0, 2 * tail / 2**n)


def ranks(values: Sequence[float]) -> list[float]:
    """From 1, the lowest first; equal numbers share their mean rank."""
    ordered = sorted(values)
    return [(bisect_left(ordered, value) + bisect_right(ordered, value) + 1) / 2 for value in values]


def signed_rank(effects: Sequence[float]) -> float:
    """Two-sided exact p of Wilcoxon's signed-rank test (1945): min(1, 2·P(W ≤ the smaller sum of ranks)).

    Given the ranks of the sizes, each has either sign with 1/2. Zeros do not count, equal sizes share their mean rank.
    Not by scipy.stats, as `kendall`, and whose exact p is of sizes that all differ.
    """
    sizes = [abs(effect) for effect in effects if effect]
    rank = dict(zip(sizes, (round(2 * rank) for rank in ranks(sizes)), strict=True))  # twice the mean one is whole
    sums = [1]  # number of subsets of ranks with each sum
    for size in sizes:
        longer = [*sums, *[0] * rank[size]]
        for total, count in enumerate(sums):
            longer[total + rank[size]] += count
        sums = longer
    smaller = min(sum(rank[abs(e)] for e in effects if e * side > 0) for side in (1, -1))
    return min(1.0, 2 * sum(sums[: smaller + 1]) / 2 ** len(sizes))


def moments(values: Sequence[float]) -> tuple[float, float | None]:
    """The mean and the standard deviation of one value or more; of one alone there is none of these."""
    n = len(values)
    # A mean of equal numbers can miss them by a rounding error, which would look like spread.
    mean = values[0] if min(values) == max(values) else math.fsum(values) / n
    return mean, math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1)) if n > 1 else None


def _around(mean: float, half: float) -> Interval:
    return mean - half, mean + half


@lru_cache(maxsize=1024)
def t_quantile(freedom: float, level: float) -> float:
    """Half the width of the two-sided `level` interval of Student's t, in standard errors."""
    from scipy.special import stdtrit

    upper = (1 + level) / 2
    return float(stdtrit(freedom, upper)) if upper < 1 else math.inf  # some versions of scipy have NaN there


def _detection(noncentrality: float, n: int, level: float) -> float:
    """P(|T| > t) of the two-sided one-sample t test, as T² ~ noncentral F(1, n − 1): both tails in one stable call."""
    quantile = t_quantile(n - 1, level)
    # Far above the quantile detection is certain, and the noncentral distribution loses its digits there.
    if noncentrality > 3 * quantile + 30:
        return 1.0
    from scipy.special import ncfdtr

    return float(1 - ncfdtr(1, n - 1, noncentrality**2, quantile**2))


def correlation(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Pearson's r of the pairs; None below three pairs, where it is always ±1, or when one side does not vary."""
    if len(first) < 3:
        return None
    (mean_1, sd_1), (mean_2, sd_2) = moments(first), moments(second)
    if not sd_1 or not sd_2:
        return None
    covariance = math.fsum((a - mean_1) * (b - mean_2) for a, b in zip(first, second, strict=True))
    return max(-1.0, min(1.0, covariance / (sd_1 * sd_2 * (len(first) - 1))))
