"""x sigmoid(v x) over the standard deviation of C/G channels and the space of one sample (and time step)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from reference.common import Base, Index, every, variance


def sigmoid(z: float) -> float:
    return 1 / (1 + math.exp(-z)) if z >= 0 else math.exp(z) / (1 + math.exp(z))


class Reference(Base):
    v: np.ndarray

    def __call__(self, x: np.ndarray, training: bool, **_: Any) -> np.ndarray:
        y, per_group = np.empty_like(x), x.shape[self.feature] // self.options["num_groups"]
        found: dict[Index, list[Index]] = {}
        for i in every(x.shape):
            outside = tuple(i[axis] for axis in self.only("batch", "time"))
            found.setdefault((*outside, i[self.feature] // per_group), []).append(i)
        for indices in found.values():
            std = math.sqrt(variance([float(x[i]) for i in indices]) + self.options["eps"])
            for i in indices:
                c, value = i[self.feature], float(x[i])
                y[i] = self.gain[c] * value * sigmoid(self.v[c] * value) / std + self.bias[c]
        return y
