"""11.2 and 11.15: moments over all but the feature axis, or each step's or position's; of all or of the valid ones."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from reference.common import DEFAULT, Base, Index, every, mean, variance


class Reference(Base):
    def __init__(self, axes: Any, sizes: Any, options: Any) -> None:
        super().__init__(axes, sizes, options)
        momenta = {None: options["momentum"]} | {
            m: m for m in options["also_momenta"]
        }  # None: the default evaluation's
        self.running = {of: {"momentum": m, "mean": {}, "var": {}} for of, m in momenta.items()}
        self.passed: dict[Index, list[tuple[float, float]]] = {}  # means and variances of each batch of a pass
        self.gathering = False
        self.time = axes.index("time") if "time" in axes and options["stats"] == "per_step" else None
        self.apart = self.only("space") if options["positions"] == "separate" and self.time is None else []

    def begin_pass(self) -> None:
        self.passed, self.gathering = {}, True

    def end_pass(self) -> None:
        self.gathering = False

    def __call__(
        self,
        x: np.ndarray,
        training: bool,
        track: bool = True,
        variant: Mapping[str, Any] = DEFAULT,
        mask: np.ndarray | None = None,
        **_: Any,
    ) -> np.ndarray:
        y = np.empty_like(x)
        way = self.options["eval_stats"]
        if variant:
            way = variant.get("eval_stats", "running")  # a momentum is one of the running averages
        together: dict[Index, list[Index]] = {}
        for i in every(x.shape):
            place = tuple(i[axis] for axis in self.apart) or (0 if self.time is None else i[self.time])
            together.setdefault((i[self.feature], place), []).append(i)
        for (c, t), indices in together.items():
            if training or way == "batch":
                values = [float(x[i]) for i in indices if self.counts(i, mask)]
                if len(values) < 2:
                    for i in indices:
                        y[i] = self.affine(i, (x[i] - values[0]) / math.sqrt(self.options["eps"]) if values else 0.0)
                    if training and track and values and (mask is not None or self.options["single_running"]):
                        self._update(c, t, values[0], 0.0)
                    continue
                mu, biased, unbiased = mean(values), variance(values), variance(values, ddof=1)
                var = unbiased if self.options["unbiased_norm"] else biased
                if training and track:
                    self._update(c, t, mu, unbiased if self.options["unbiased_running"] else biased)
            elif way == "per_step_pass":
                last = max((step for feature, step in self.passed if feature == c), default=t if self.apart else 0)
                moments = self.passed.get((c, t if self.apart else min(t, last)), [(0.0, 1.0)])
                mu, var = mean([m for m, _ in moments]), mean([v for _, v in moments])
            elif way == "pooled_pass":
                steps = [found for (feature, _), found in self.passed.items() if feature == c] or [[(0.0, 1.0)]]
                mu, var = (mean([mean([one[of] for one in found]) for found in steps]) for of in (0, 1))
            else:
                row = self.running.get(variant.get("momentum"), self.running[None])
                at = (c, t if self.apart else min(t, self.options["t_max"] - 1))
                mu, var = row["mean"].get(at, 0.0), row["var"].get(at, 1.0)
            for i in indices:
                y[i] = self.affine(i, (x[i] - mu) / math.sqrt(var + self.options["eps"]))
        return y

    def counts(self, index: Index, mask: np.ndarray | None) -> bool:
        """Whether this value takes part in the moments."""
        stats = self.options["stats"]
        if mask is None or stats == "pooled" or (stats == "per_step" and not self.options["use_mask"]):
            return True
        return bool(mask[index[0], index[self.axes.index("time")]])

    def _update(self, c: int, t: int, mu: float, var: float) -> None:
        if not self.apart and t >= self.options["t_max"]:
            return
        if self.gathering:
            self.passed.setdefault((c, t), []).append((mu, var))
            return
        for row in self.running.values():
            m = row["momentum"]
            row["mean"][c, t] = (1 - m) * row["mean"].get((c, t), 0.0) + m * mu
            row["var"][c, t] = (1 - m) * row["var"].get((c, t), 1.0) + m * var
