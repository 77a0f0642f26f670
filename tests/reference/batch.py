"""11.2: moments over all but the feature axis; running averages for each momentum."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from reference.common import Base, groups, mean, variance


class Reference(Base):
    def __init__(self, axes: Any, sizes: Any, options: Any) -> None:
        super().__init__(axes, sizes, options)
        momenta = [options["momentum"], *options["also_momenta"]]
        names = ["", *(f"momentum={m}" for m in options["also_momenta"])]
        self.running = {name: {"momentum": m, "mean": {}, "var": {}} for name, m in zip(names, momenta, strict=True)}

    def __call__(self, x: np.ndarray, training: bool, track: bool = True, variant: str = "", **_: Any) -> np.ndarray:
        y = np.empty_like(x)
        for (c,), indices in groups(x.shape, [self.feature]).items():
            values = [float(x[i]) for i in indices]
            if training or self.options["eval_stats"] == "batch":
                if len(values) == 1:
                    y[indices[0]] = self.affine(indices[0], 0.0)
                    continue
                mu, biased, unbiased = mean(values), variance(values), variance(values, ddof=1)
                var = unbiased if self.options["unbiased_norm"] else biased
                if training and track:
                    self._update(c, mu, unbiased if self.options["unbiased_running"] else biased)
            else:
                mu, var = self.running[variant]["mean"].get(c, 0.0), self.running[variant]["var"].get(c, 1.0)
            for i, value in zip(indices, values, strict=True):
                y[i] = self.affine(i, (value - mu) / math.sqrt(var + self.options["eps"]))
        return y

    def _update(self, c: int, mu: float, var: float) -> None:
        for row in self.running.values():
            m = row["momentum"]
            row["mean"][c] = (1 - m) * row["mean"].get(c, 0.0) + m * mu
            row["var"][c] = (1 - m) * row["var"].get(c, 1.0) + m * var
