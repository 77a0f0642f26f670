"""Tests at looks that were planned beforehand: how small p has to be at each of them (group-sequential tests)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

POINTS = 128  # of the grid over the sums that go on to the next look; 64 give the same eight digits
FARTHEST = 12  # standard deviations of a sum: none lies beyond
FOR_T = 0.93  # of a level is spent: t tests of few seeds reject more often than Gaussian ones (results/check/looks.md)


def _obrien_fleming(level: float, share: float) -> float:
    from scipy.special import ndtr, ndtri

    return float(4 * ndtr(ndtri(level / 4) / math.sqrt(share)))


def _pocock(level: float, share: float) -> float:
    return level * math.log1p((math.e - 1) * share)


# Lan and DeMets 1983: how much of a two-sided level is spent when a share of the planned runs is there
SPENDINGS: dict[str, Callable[[float, float], float]] = {"obrien-fleming": _obrien_fleming, "pocock": _pocock}


def level_at(n: int, looks: tuple[int, ...], level: float, spending: str) -> float:
    """The level of a test at the look at n seeds, where tests at all looks together may have `level`."""
    return levels(looks, FOR_T * level, spending)[looks.index(n)]


@lru_cache(maxsize=1024)
def levels(looks: tuple[int, ...], level: float = 0.05, spending: str = "obrien-fleming") -> tuple[float, ...]:
    """The level of a two-sided test at each look, so that all of them together have `level`.

    looks: the numbers of seeds at which the runs are judged, ascending. The sums of Gaussian numbers at the looks have
    independent increments; the density of those that have crossed no bound yet is integrated from look to look
    (Armitage, McPherson, Rowe 1969). Exact for numbers of known spread.

    >>> [round(p, 4) for p in levels((5, 10, 20), spending="pocock")]
    [0.0179, 0.0179, 0.026]
    """
    import numpy as np
    from scipy.optimize import brentq
    from scipy.special import ndtr

    shares = np.array(looks) / looks[-1]
    spent = np.array([SPENDINGS[spending](level, share) for share in shares])
    nodes, sizes = np.polynomial.legendre.leggauss(POINTS)
    sums, weights = np.zeros(1), np.ones(1)  # before the first look the sum is 0
    of_looks = []
    for share, step, chance in zip(shares, np.sqrt(np.diff(shares, prepend=0)), np.diff(spent, prepend=0), strict=True):
        bound = brentq(_excess, 0, 40, args=(sums, weights, step, chance), xtol=1e-12)
        of_looks.append(float(2 * ndtr(-bound / math.sqrt(share))))
        reach = min(bound, FARTHEST * math.sqrt(share))  # of an early bound the grid would miss the sums
        steps = (reach * nodes[:, None] - sums) / step
        density = np.exp(-(steps**2) / 2) / (step * math.sqrt(2 * math.pi))
        sums, weights = reach * nodes, reach * sizes * (density @ weights)
    return tuple(of_looks)


def _excess(bound: float, sums: Any, weights: Any, step: float, chance: float) -> float:
    """Of the chance that the next sum lies beyond the bound, on either side, over the chance that it may have."""
    from scipy.special import ndtr

    return float(weights @ (ndtr((sums - bound) / step) + ndtr((-sums - bound) / step)) - chance)
