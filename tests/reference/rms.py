"""11.7: x / RMS of the first floor or ceil(p n) of n values: of one position's features (`last`), of a channel's
positions (`space`), or of a whole sample (`all`), with eps inside or outside of the root; the offset is optional."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from reference.common import Base, groups, mean


class Reference(Base):
    def __call__(self, x: np.ndarray, training: bool, **_: Any) -> np.ndarray:
        y, eps = np.empty_like(x), self.options["eps"]
        over = {"last": ["feature"], "space": ["space"], "all": ["feature", "space"]}[self.options["normalized_axes"]]
        if "space" not in self.axes:
            over = ["feature"]
        count = {"floor": math.floor, "ceil": math.ceil}[self.options["partial"]]
        for indices in groups(x.shape, self.all_but(*over)).values():
            used = count(Fraction(str(self.options["p"])) * len(indices))
            square = mean([float(x[i]) ** 2 for i in sorted(indices)[:used]])
            scale = math.sqrt(square + eps) if self.options["eps_mode"] == "in" else math.sqrt(square) + eps
            for i in indices:
                y[i] = self.affine(i, x[i] / scale)
        return y
