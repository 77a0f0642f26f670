"""One arm beside others over several tasks: the probability of improvement, the average rank, and how sure both are.

A lower number is better. That of a diverged run is infinite: worse than any other, and equal to that of another one.

The share of an arm in a task is the probability that a run of it is better than one of another arm, P(X > Y) of Agarwal
et al. (2021), averaged over the other arms. The mean rank of a run among one run of each of k arms is then
1 + (k − 1)·(1 − share). The mean share over tasks has two intervals, and both cover (results/check/tasks.md):

- these tasks, with more seeds: Wilson's (1927), of as many tosses of a coin as there are tasks times runs of an arm.
  P(X > Y) never varies more (Birnbaum, Klose 1957).
- tasks like these, of which these are a random sample: Gaffke's (2005) of the mean of numbers between 0 and 1.
"""

from __future__ import annotations

import statistics
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from normbench.stats.statistics import Interval

Scores = Mapping[str, Mapping[str, Sequence[float]]]  # by task and arm, the number of each run


@dataclass(frozen=True)
class Standing:
    """The mean share of an arm over the tasks that it and `others` others have; `runs`: of the arm with the fewest."""

    share: float
    these: Interval
    like_these: Interval
    tasks: int
    runs: int
    others: int

    def rank(self, share: float) -> float:
        """The average rank that belongs to a share: 1 is the best."""
        return 1 + self.others * (1 - share)

    def ranks(self, interval: Interval) -> Interval:
        return self.rank(interval[1]), self.rank(interval[0])


def improvement(first: Sequence[float], second: Sequence[float]) -> float:
    """P(X > Y): of all pairs of runs the share in which that of the first arm is better; equal ones count half.

    >>> improvement([1.0, 2.0], [2.0, 3.0])
    0.875
    """
    ranked = sorted(second)
    wins = sum(2 * len(ranked) - bisect_left(ranked, number) - bisect_right(ranked, number) for number in first)
    return wins / (2 * len(first) * len(second))


def standing(scores: Scores, arm: str, others: Sequence[str], level: float = 0.95) -> Standing | None:
    """Over the tasks in which all of them have runs; None without any."""
    among = [arms for arms in scores.values() if all(arms.get(name) for name in (arm, *others))]
    if not among:
        return None
    shares = [statistics.fmean(improvement(arms[arm], arms[other]) for other in others) for arms in among]
    runs = min(len(arms[name]) for arms in among for name in (arm, *others))
    mean, these = statistics.fmean(shares), these_tasks(shares, runs, level)
    return Standing(mean, these, like_these(shares, level), len(shares), runs, len(others))


def these_tasks(shares: Sequence[float], runs: int, level: float = 0.95) -> Interval:
    """Of the mean share over these tasks, with at least `runs` runs of each arm in each."""
    n, mean = len(shares) * runs, statistics.fmean(shares)
    z = statistics.NormalDist().inv_cdf((1 + level) / 2)
    centre, spread = mean + z**2 / (2 * n), z * (mean * (1 - mean) / n + (z / (2 * n)) ** 2) ** 0.5
    low, high = ((centre + side * spread) / (1 + z**2 / n) for side in (-1, 1))
    return max(0.0, low), min(1.0, high)


def like_these(shares: Sequence[float], level: float = 0.95) -> Interval:
    """Of the mean share in the population of tasks that these are a random sample of."""
    alpha = (1 - level) / 2
    return _quantile([0.0, *shares], alpha), 1 - _quantile([0.0, *(1 - share for share in shares)], alpha)


def _quantile(values: Sequence[float], alpha: float) -> float:
    from scipy.optimize import brentq

    high = max(values)
    return round(float(brentq(lambda limit: below(values, limit) - alpha, 0.0, high)), 10) if high else 0.0


def below(values: Sequence[float], limit: float) -> float:
    """P(Σ w[i]·values[i] ≤ limit) with weights that are uniform among all that add up to 1.

    The density of such a mean is the B-spline with its values as knots (Curry, Schoenberg 1966).
    """
    from scipy.interpolate import BSpline

    low, high = min(values), max(values)
    if not low <= limit < high:
        return float(limit >= high)
    return float(BSpline.basis_element(sorted(values)).integrate(low, limit)) * (len(values) - 1) / (high - low)
