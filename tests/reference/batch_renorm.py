"""11.11: r and d from the running values before their update, held in the gradient; limits by count of updates."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from reference.common import Base, groups, mean, variance


class Reference(Base):
    def __init__(self, axes: Any, sizes: Any, options: Any) -> None:
        super().__init__(axes, sizes, options)
        self.mean, self.std = np.zeros(sizes[self.feature]), np.ones(sizes[self.feature])
        self.updates = 0

    def clip(self, value: float, low: float, high: float) -> float:
        return min(max(value, low), high)

    def limits(self) -> tuple[float, float]:
        """The code's lines for 3 and 5: 2 t/35000 + 25/35 and 5 t/20000 - 25/20, with t scaled by the warm-up."""
        if self.options["warmup_frac"] == 0:
            return self.options["r_max"], self.options["d_max"]
        t, r_max, d_max = self.updates / self.options["warmup_frac"], self.options["r_max"], self.options["d_max"]
        r = self.clip(((r_max - 1) * t + 40000 - 5000 * r_max) / 35000, 1, r_max)
        return r, self.clip(d_max * t / 20000 - d_max * 5000 / 20000, 0, d_max)

    def __call__(
        self, x: np.ndarray, training: bool, track: bool = True, hold: np.ndarray | None = None, **_: Any
    ) -> np.ndarray:
        y, (r_max, d_max) = np.empty_like(x), self.limits()
        for (c,), indices in groups(x.shape, [self.feature]).items():
            if not training:
                for i in indices:
                    y[i] = self.affine(i, (x[i] - self.mean[c]) / self.std[c])
                continue
            mu, sigma = self.moments(x, indices)
            mu_held, sigma_held = self.moments(x if hold is None else hold, indices)
            r = self.clip(sigma_held / self.std[c], 1 / r_max, r_max)
            d = self.clip((mu_held - self.mean[c]) / self.std[c], -d_max, d_max)
            for i in indices:
                y[i] = self.affine(i, (x[i] - mu) / sigma * r + d)
            if track:
                a = self.options["momentum"]
                self.mean[c], self.std[c] = (1 - a) * self.mean[c] + a * mu, (1 - a) * self.std[c] + a * sigma
        self.updates += int(training and track)
        return y

    def moments(self, x: np.ndarray, indices: list[Any]) -> tuple[float, float]:
        values, eps = [float(x[i]) for i in indices], self.options["eps"]
        var = variance(values)
        return mean(values), math.sqrt(var + eps) if self.options["eps_mode"] == "in" else math.sqrt(var) + eps
