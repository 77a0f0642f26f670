"""11.10: each chunk of the batch by its own moments, one running update per chunk; a last one joins its neighbour."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from reference.common import Base, groups, mean, variance


class Reference(Base):
    def __init__(self, axes: Any, sizes: Any, options: Any) -> None:
        super().__init__(axes, sizes, options)
        self.mean, self.spread = np.zeros(sizes[self.feature]), np.ones(sizes[self.feature])

    def chunk(self, sample: int, samples: int) -> int:
        size = self.options["ghost_size"]
        last_alone = samples % size == 1 and sample == samples - 1 and samples > 1
        return sample // size - (1 if last_alone else 0)

    def __call__(self, x: np.ndarray, training: bool, track: bool = True, **_: Any) -> np.ndarray:
        y, std = np.empty_like(x), self.options["average"] == "std"
        chunks: dict[int, list[int]] = {}
        for sample in range(len(x)):
            chunks.setdefault(self.chunk(sample, len(x)) if training else 0, []).append(sample)
        for samples in chunks.values():
            for (c,), all_indices in groups(x.shape, [self.feature]).items():
                indices = [i for i in all_indices if i[0] in samples]
                values = [float(x[i]) for i in indices]
                mu, var = self.mean[c], self.spread[c] ** 2 if std else self.spread[c]
                if training:
                    mu, var = mean(values), variance(values)
                    if track and len(values) > 1:
                        kept = variance(values, ddof=1 if self.options["unbiased_running"] else 0)
                        a = self.options["momentum"]
                        self.mean[c] = (1 - a) * self.mean[c] + a * mu
                        self.spread[c] = (1 - a) * self.spread[c] + a * (math.sqrt(kept) if std else kept)
                for i, value in zip(indices, values, strict=True):
                    y[i] = self.affine(i, (value - mu) / math.sqrt(var + self.options["eps"]))
        return y
