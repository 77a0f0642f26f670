"""Zhu et al. 2025: gain * tanh(alpha x) + bias, or another curve (Table 8), alpha fixed or left out (Table 9)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from reference.common import Base, every


class Reference(Base):
    alpha: np.ndarray = np.zeros(1)

    def __call__(self, x: np.ndarray, training: bool, **_: Any) -> np.ndarray:
        y = np.empty_like(x)
        for i in every(x.shape):
            y[i] = self.gain[i[self.feature]] * self.curve(float(x[i])) + self.bias[i[self.feature]]
        return y

    def curve(self, value: float) -> float:
        alphas = {"learned": self.alpha[0], "fixed": self.options["alpha_init"], "none": 1.0}
        z = alphas[self.options["alpha"]] * value
        curves = {
            "tanh": math.tanh(z),
            "hardtanh": max(-1.0, min(1.0, z)),
            "sigmoid": (1 + math.tanh(z / 2)) / 2,
            "identity": z,
            "erf": math.erf(z),
        }
        return curves[self.options["function"]]
