"""11.8: biased moments over the positions in space of one sample's channel, or their running averages per channel."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from reference.common import Base, groups, mean, variance


class Reference(Base):
    def __init__(self, axes: Any, sizes: Any, options: Any) -> None:
        super().__init__(axes, sizes, options)
        self.running: dict[int, tuple[float, float]] = {}

    def __call__(self, x: np.ndarray, training: bool, track: bool = True, **_: Any) -> np.ndarray:
        y = np.empty_like(x)
        found: dict[int, list[tuple[float, float]]] = {}
        for indices in groups(x.shape, self.all_but("space")).values():
            values, channel = [float(x[i]) for i in indices], indices[0][self.feature]
            if self.options["track_running_stats"] and not training:
                mu, var = self.running.get(channel, (0.0, 1.0))
            else:
                mu, var = mean(values), variance(values)
                found.setdefault(channel, []).append((mu, variance(values, ddof=1)))
            for i, value in zip(indices, values, strict=True):
                y[i] = self.affine(i, (value - mu) / math.sqrt(var + self.options["eps"]))
        momentum = self.options["momentum"]
        for channel, moments in found.items() if training and track else ():
            now = mean([m for m, _ in moments]), mean([v for _, v in moments])
            old = self.running.get(channel, (0.0, 1.0))
            self.running[channel] = tuple((1 - momentum) * a + momentum * b for a, b in zip(old, now, strict=True))
        return y
