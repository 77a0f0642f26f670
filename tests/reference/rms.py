"""11.7: x / RMS of the first floor(p d) features, with eps inside or outside of the root; the offset is optional."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from reference.common import Base, groups, mean


class Reference(Base):
    def __call__(self, x: np.ndarray, training: bool, **_: Any) -> np.ndarray:
        y, eps = np.empty_like(x), self.options["eps"]
        for indices in groups(x.shape, self.all_but("feature")).values():
            used = math.floor(Fraction(str(self.options["p"])) * len(indices))
            square = mean([float(x[i]) ** 2 for i in indices if i[self.feature] < used])
            scale = math.sqrt(square + eps) if self.options["eps_mode"] == "in" else math.sqrt(square) + eps
            for i in indices:
                y[i] = self.affine(i, x[i] / scale)
        return y
