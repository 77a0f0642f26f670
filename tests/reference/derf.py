"""Chen et al. 2025, eq. 10: gain * erf(alpha x + s) + bias."""

from __future__ import annotations

import math

import numpy as np
from reference import dyt


class Reference(dyt.Reference):
    shift: np.ndarray

    def curve(self, value: float) -> float:
        return math.erf(self.alpha[0] * value + self.shift[0])
