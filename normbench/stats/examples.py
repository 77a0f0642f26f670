"""Intervals over seeds and test examples: both are samples of a population.

The mean over seeds s and examples i of effects e[s, i] = μ + seed + example + rest (two-way random model without
replication; Searle, Casella, McCulloch 1992, ch. 4). All seeds tested on the same I examples:

    V = (MS_seeds + MS_examples − MS_rest) / (S·I), degrees of freedom after Satterthwaite (1946)

with MS_rest in the place of a smaller MS_seeds or MS_examples: neither is expected below it, and where chance brings V
near 0 the degrees of freedom would go there with it, and the interval to infinity (Gaylor, Hopper 1969).
On examples that overlap in part, seeds s and t with M and M′ of them, |o| in common:

    V = s²(seed means)/S + mean over pairs of seeds of σ̂²_examples · |o| / (M·M′), degrees of freedom of the seeds

The interval is the wider one of this and that over the seeds alone: with few seeds either may be too narrow by chance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from normbench.stats.statistics import Interval, t_interval, t_quantile


@dataclass(frozen=True)
class Spread:
    """The mean, the variance of it as above with its degrees of freedom, and the effects of the seeds."""

    mean: float
    variance: float
    freedom: float
    by_seed: tuple[float, ...]
    examples: int

    def interval(self, level: float = 0.95) -> Interval | None:
        """Two-sided, around the mean; None below two seeds."""
        alone = t_interval(self.by_seed, level).interval
        if alone is None or self.variance <= 0:
            return alone
        half = max(t_quantile(self.freedom, level) * math.sqrt(self.variance), (alone[1] - alone[0]) / 2)
        return self.mean - half, self.mean + half


def spread(effects: Sequence[Sequence[float]] | np.ndarray) -> Spread:
    """Of effects by seed (two rows or more) and example (columns), NaN where a seed was not tested on an example."""
    table = np.asarray(effects, dtype=np.float64)
    tested = ~np.isnan(table)
    means = np.array([row[mask].mean() for row, mask in zip(table, tested, strict=True)])
    variance, freedom = _alike(table, means) if tested.all() else _overlapping(table, tested, means)
    return Spread(float(means.mean()), variance, freedom, tuple(map(float, means)), int(tested.any(axis=0).sum()))


def _alike(table: np.ndarray, means: np.ndarray) -> tuple[float, float]:
    seeds, examples = table.shape
    columns = table.mean(axis=0)
    mean = means.mean()
    of_seeds = examples * float(((means - mean) ** 2).sum()) / (seeds - 1)
    of_examples = seeds * float(((columns - mean) ** 2).sum()) / (examples - 1)
    residual = float(((table - means[:, None] - columns + mean) ** 2).sum()) / ((seeds - 1) * (examples - 1))
    of_seeds, of_examples = max(of_seeds, residual), max(of_examples, residual)
    total = of_seeds + of_examples - residual
    if total == 0:
        return 0.0, seeds - 1.0
    parts = of_seeds**2 / (seeds - 1) + of_examples**2 / (examples - 1) + residual**2 / ((seeds - 1) * (examples - 1))
    return total / table.size, total**2 / parts


def _overlapping(table: np.ndarray, tested: np.ndarray, means: np.ndarray) -> tuple[float, float]:
    """σ̂²_examples is what two seeds' effects of the same examples have in common, over all pairs of seeds."""
    pairs = np.triu_indices(len(table), 1)
    centred = np.where(tested, table - means[:, None], 0.0)
    overlap = (tested.astype(np.float64) @ tested.T)[pairs]
    common = overlap.sum()
    of_examples = max(0.0, float((centred @ centred.T)[pairs].sum() / common)) if common else 0.0
    counts = tested.sum(axis=1)
    shares = overlap / np.outer(counts, counts)[pairs]
    variance = float(means.var(ddof=1)) / len(table) + of_examples * float(shares.mean())
    return variance, len(table) - 1.0
