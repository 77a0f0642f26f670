"""11.16: x by the root of its mean square; of the batch in the warm-up, of earlier batches after it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from reference.common import Base, Index, groups, mean


class Reference(Base):
    def __init__(self, axes: Any, sizes: Any, options: Any) -> None:
        super().__init__(axes, sizes, options)
        self.square, self.nu = np.ones(sizes[self.feature]), np.zeros(sizes[self.feature])
        self.updates = 0

    def __call__(
        self,
        x: np.ndarray,
        training: bool,
        track: bool = True,
        mask: np.ndarray | None = None,
        hold: np.ndarray | None = None,
        **_: Any,
    ) -> np.ndarray:
        x, y = self.scaled(x), np.empty_like(x)
        held = x if hold is None else self.scaled(hold)
        warm, code = self.updates < self.options["warmup_updates"], self.options["form"] == "code"
        for (c,), indices in groups(x.shape, [self.feature]).items():
            valid = [i for i in indices if self.counts(i, mask)]
            batch, batch_held = (mean([v[i] ** 2 for i in valid]) for v in (x, held))
            for i in indices:
                if training and code:  # nu is 0: the gradient is 1 over the root of the batch's, held
                    z = held[i] / self.root(batch_held if warm else self.square[c])
                    z += (x[i] - held[i]) / self.root(batch_held)
                else:
                    z = x[i] / self.root(batch if training and warm else self.square[c])
                y[i] = self.affine(i, z)
            if training and track:
                self.follow(c, batch)
        self.updates += int(training and track)
        return y

    def follow(self, c: int, batch: float) -> None:
        t, a = self.updates + 1, self.options["alpha_fwd"]
        if self.options["form"] == "code" and t < self.options["warmup_updates"]:
            self.square[c] = self.square[c] * (t - 1) / t + batch / t
        self.square[c] = a * self.square[c] + (1 - a) * batch

    def backward(self, x: np.ndarray, by_y: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
        """The gradient by x, after group scaling, of an update whose gradient by y this is; before its forward pass.

        nu <- nu (1 - (1 - alpha) Gamma) + (1 - alpha) Lambda with Gamma = mean z^2, Lambda = mean g z.
        """
        by_x = np.empty_like(x)
        warm, code = self.updates < self.options["warmup_updates"], self.options["form"] == "code"
        for (c,), indices in groups(x.shape, [self.feature]).items():
            valid = [i for i in indices if self.counts(i, mask)]
            batch = mean([x[i] ** 2 for i in valid])
            root = self.root(batch if warm else self.square[c])
            z = {i: x[i] / root for i in indices}
            g = {i: by_y[i] * (self.gain[c] if self.options["affine"] else 1.0) for i in indices}
            exact = sum(g[i] * z[i] for i in indices) / len(valid)  # PN-V's derivative by its own mean square
            for i in indices:
                if warm and not code:
                    by_x[i] = (g[i] - (exact * z[i] if self.counts(i, mask) else 0.0)) / root
                else:
                    by_x[i] = (g[i] - self.nu[c] * z[i]) / (self.root(batch) if code else root)
            gamma, big_lambda = mean([z[i] ** 2 for i in valid]), mean([g[i] * z[i] for i in valid])
            rate = 1 - self.options["alpha_bkd"]
            self.nu[c] = self.nu[c] * (1 - rate * gamma) + rate * big_lambda
        return by_x

    def scaled(self, x: np.ndarray) -> np.ndarray:
        if not self.options["group_scaling"]:
            return x
        y, size = np.empty_like(x), x.shape[self.feature] // self.options["num_groups"]
        for position in groups(x.shape, self.all_but("feature")).values():
            for start in range(0, len(position), size):
                group = position[start : start + size]
                for i in group:
                    y[i] = x[i] / self.root(mean([x[j] ** 2 for j in group]))
        return y

    def root(self, square: float) -> float:
        return math.sqrt(square + self.options["eps"])

    def counts(self, index: Index, mask: np.ndarray | None) -> bool:
        return mask is None or bool(mask[index[0], index[self.axes.index("time")]])
