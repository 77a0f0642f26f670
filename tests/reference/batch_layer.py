"""11.4: per-position batch term and per-sample feature term, weighted by 1/m; four populations of the last epoch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from reference.common import DEFAULT, Base, Index, groups, mean, variance


class Population:
    """What an epoch or a pass gathered, and what it left when it was finished."""

    def __init__(self) -> None:
        self.m = self.largest = 0
        self.seen: dict[tuple[str, Index], list[tuple[float, float]]] = {}  # means and spreads, one pair per batch
        self.finished: dict[tuple[str, Index], tuple[float, float]] = {}


class Reference(Base):
    def __init__(self, axes: Any, sizes: Any, options: Any) -> None:
        super().__init__(axes, sizes, options)
        self.d = sizes[self.feature]
        self.paper = options["mode"] == "paper"
        self.eps_v = options["eps_v"] or (1e-4 if self.paper else 1e-3)
        self.trained, self.recalibrated = Population(), Population()
        self.into, self.epochs = self.trained, 0

    def begin_epoch(self) -> None:
        self.trained.seen.clear()

    def end_epoch(self) -> None:
        self.finish(self.trained, self.options["populations"] == "pooled")
        self.epochs += 1

    def begin_pass(self) -> None:
        self.into = self.recalibrated
        self.into.seen.clear()

    def end_pass(self) -> None:
        self.finish(self.recalibrated, pooled=True)
        self.into = self.trained

    def finish(self, population: Population, pooled: bool) -> None:
        m = population.m = population.largest
        correction = m / (m - 1) if m > 1 else (1.0 if self.options["safe_m1"] else math.inf)
        if pooled:  # all slots' values in every slot
            everywhere: dict[Index, list[tuple[float, float]]] = {}
            for (term, at), values in population.seen.items():
                if term == "F":
                    everywhere.setdefault(at[1:], []).extend(values)
            population.seen |= {("F", at): everywhere[at[1:]] for term, at in population.seen if term == "F"}
        for key, values in population.seen.items():
            spread = mean([s for _, s in values])
            if self.paper or key[0] == "F" or m == 1:
                spread *= correction
            deviation = spread if self.paper else math.sqrt(spread + self.eps_v)
            population.finished[key] = mean([v for v, _ in values]), deviation

    def spread(self, term: str, v: float) -> float:
        """What an epoch averages: variances in the code, deviations in the paper."""
        return self.root(term, v) if self.paper else v

    def root(self, term: str, v: float) -> float:
        return math.sqrt(v + (1e-12 if self.paper and term == "F" else self.eps_v))

    def __call__(
        self, x: np.ndarray, training: bool, track: bool = True, variant: Mapping[str, Any] = DEFAULT, **_: Any
    ) -> np.ndarray:
        if training:
            if track:
                self.into.largest = max(self.into.largest, len(x))
            y = self.batch(x, "FFFF", len(x), self.into, track)
            if self.options["adopt"] == "none" or self.epochs < self.options["adopt_after"]:
                return y
            return self.batch(x, self.options["adopt"], len(x), self.trained, False)
        chosen = {**self.options, **variant}
        letters, kind = chosen["configuration"], chosen["populations"]
        population = self.recalibrated if kind == "recalibrated" else self.trained
        m = population.m or len(x)
        starts = range(0, len(x), m)
        return np.concatenate([self.batch(x[s : s + m], letters, m, population, False) for s in starts])

    def batch(self, x: np.ndarray, letters: str, m: int, population: Population, track: bool) -> np.ndarray:
        terms = {}
        for term, over, flags in (("B", "batch", letters[:2]), ("F", "feature", letters[2:])):
            terms[term] = np.empty_like(x)
            for at, indices in groups(x.shape, self.all_but(over)).items():
                values = [float(x[i]) for i in indices]
                if track:
                    spread = self.spread(term, variance(values))
                    if term == "B" and not self.paper and len(values) > 1:
                        spread *= len(values) / (len(values) - 1)  # of this batch, which may be a last, smaller one
                    population.seen.setdefault((term, at), []).append((mean(values), spread))
                population_mean, population_std = population.finished.get((term, at), (0.0, 1.0))
                mu = population_mean if flags[0] == "T" else mean(values)
                std = population_std
                if flags[1] == "F":
                    std = self.root(term, variance(values, about=mu if self.paper else None))
                for i, value in zip(indices, values, strict=True):
                    terms[term][i] = (value - mu) / std
        w_b, w_f = 1 - (1 / m + self.options["eps_w"]), 1 / m - self.options["eps_w"]
        y = w_b * terms["B"] + w_f * terms["F"]
        for i in np.ndindex(*y.shape):
            y[i] = self.affine(i, y[i])
        return y
