"""Nguyen and Salazar 2019: gain * x / ||x||; the authors' code divides by no norm below eps."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from reference.common import Base, groups


class Reference(Base):
    affine_over = ()

    def __call__(self, x: np.ndarray, training: bool, **_: Any) -> np.ndarray:
        y = np.empty_like(x)
        for indices in groups(x.shape, self.all_but("feature")).values():
            norm = math.sqrt(math.fsum(float(x[i]) ** 2 for i in indices))
            for i in indices:
                y[i] = float(self.gain) * x[i] / max(norm, self.options["eps"])
        return y
