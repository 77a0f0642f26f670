"""11.3: biased moments of one sample's features, per position (`last`) or over its space axes as well (`all`)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from reference.common import Base, groups, mean, variance


class Reference(Base):
    def __init__(self, axes: Any, sizes: Any, options: Any) -> None:
        self.affine_over = ("feature", "space") if options["normalized_axes"] == "all" else ("feature",)
        super().__init__(axes, sizes, options)

    def __call__(self, x: np.ndarray, training: bool, **_: Any) -> np.ndarray:
        y, eps = np.empty_like(x), self.options["eps"]
        for indices in groups(x.shape, self.all_but(*self.affine_over)).values():
            values = [float(x[i]) for i in indices]
            var = variance(values)
            scale = math.sqrt(var + eps) if self.options["eps_mode"] == "in" else math.sqrt(var) + eps
            for i, value in zip(indices, values, strict=True):
                y[i] = self.affine(i, (value - mean(values)) / scale)
        return y
