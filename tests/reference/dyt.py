"""Zhu et al. 2025: gain * tanh(alpha x) + bias."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from reference.common import Base, every


class Reference(Base):
    alpha: np.ndarray

    def __call__(self, x: np.ndarray, training: bool, **_: Any) -> np.ndarray:
        y = np.empty_like(x)
        for i in every(x.shape):
            y[i] = self.gain[i[self.feature]] * self.curve(float(x[i])) + self.bias[i[self.feature]]
        return y

    def curve(self, value: float) -> float:
        return math.tanh(self.alpha[0] * value)
