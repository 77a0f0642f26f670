"""11.14: z = C y (1 - k y) with the factor k y held in the gradient; unbiased deviation, eps outside."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from reference.common import Base, groups, mean, variance


class Reference(Base):
    def __call__(self, x: np.ndarray, training: bool, hold: np.ndarray | None = None, **_: Any) -> np.ndarray:
        y = self.normalized(x)
        factor = self.options["k"] * (y if hold is None else self.normalized(hold))
        return self.options["scale"] * y * (1 - factor)

    def normalized(self, x: np.ndarray) -> np.ndarray:
        y = np.empty_like(x)
        for indices in groups(x.shape, self.all_but("feature")).values():
            values = [float(x[i]) for i in indices]
            deviation = math.sqrt(variance(values, ddof=1 if self.options["unbiased"] else 0))
            for i, value in zip(indices, values, strict=True):
                y[i] = (value - mean(values)) / (deviation + self.options["eps"])
        return y
