"""Naive normalizers in float64: loops over index tuples, one value after the other, straight from the formulas.

Written apart from the implementation and without its tricks, so that the two can only agree by both being right.
Each class is made as `Reference(axes, sizes, options)` with `sizes` the size of every axis, and called with a plain
nested index; `gain` and `bias` are set by the test. `REFERENCES` is by the name in `conf/norm`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np


def _groups(shape: tuple[int, ...], kept: list[int]) -> dict[tuple[int, ...], list[tuple[int, ...]]]:
    """All indices of an array, gathered by their coordinates on the axes `kept`."""
    groups: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    for index in itertools.product(*(range(size) for size in shape)):
        groups.setdefault(tuple(index[axis] for axis in kept), []).append(index)
    return groups


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)


def _variance(values: list[float], ddof: int) -> float:
    mean = _mean(values)
    return math.fsum((v - mean) ** 2 for v in values) / (len(values) - ddof)


class Batch:
    """11.2: moments over all but the feature axis; running averages for each momentum."""

    def __init__(self, axes: tuple[str, ...], sizes: tuple[int, ...], options: Mapping[str, Any]) -> None:
        self.options = options
        self.feature = axes.index("feature")
        self.affine_shape = (sizes[self.feature],)
        self.gain = np.full(self.affine_shape, options["gain_init"])
        self.bias = np.zeros(self.affine_shape)
        momenta = [options["momentum"], *options["also_momenta"]]
        names = ["", *(f"momentum={m}" for m in options["also_momenta"])]
        self.running = {name: {"momentum": m, "mean": {}, "var": {}} for name, m in zip(names, momenta, strict=True)}

    def __call__(self, x: np.ndarray, training: bool, track: bool = True, variant: str = "") -> np.ndarray:
        y = np.empty_like(x)
        for (c,), indices in _groups(x.shape, [self.feature]).items():
            values = [float(x[i]) for i in indices]
            if training or self.options["eval_stats"] == "batch":
                if len(values) == 1:
                    for i in indices:
                        y[i] = self._shift(c)
                    continue
                mean, biased, unbiased = _mean(values), _variance(values, 0), _variance(values, 1)
                var = unbiased if self.options["unbiased_norm"] else biased
                if training and track:
                    self._update(c, mean, unbiased if self.options["unbiased_running"] else biased)
            else:
                mean, var = self.running[variant]["mean"].get(c, 0.0), self.running[variant]["var"].get(c, 1.0)
            for i, value in zip(indices, values, strict=True):
                scale = self.gain[c] if self.options["affine"] else 1.0
                y[i] = scale * (value - mean) / math.sqrt(var + self.options["eps"]) + self._shift(c)
        return y

    def _shift(self, c: int) -> float:
        return float(self.bias[c]) if self.options["affine"] and self.options["bias"] else 0.0

    def _update(self, c: int, mean: float, var: float) -> None:
        for row in self.running.values():
            m = row["momentum"]
            row["mean"][c] = (1 - m) * row["mean"].get(c, 0.0) + m * mean
            row["var"][c] = (1 - m) * row["var"].get(c, 1.0) + m * var


class Layer:
    """11.3: biased moments of one sample's features, per position (`last`) or over its space axes as well (`all`)."""

    def __init__(self, axes: tuple[str, ...], sizes: tuple[int, ...], options: Mapping[str, Any]) -> None:
        self.options = options
        together = ("feature", "space") if options["normalized_axes"] == "all" else ("feature",)
        self.over = [i for i, axis in enumerate(axes) if axis in together]
        self.kept = [i for i, axis in enumerate(axes) if axis not in together]
        self.affine_shape = tuple(sizes[i] for i in self.over)
        self.gain = np.full(self.affine_shape, options["gain_init"])
        self.bias = np.zeros(self.affine_shape)

    def __call__(self, x: np.ndarray, training: bool, track: bool = True, variant: str = "") -> np.ndarray:
        y = np.empty_like(x)
        for indices in _groups(x.shape, self.kept).values():
            values = [float(x[i]) for i in indices]
            mean, var = _mean(values), _variance(values, 0)
            eps = self.options["eps"]
            scale = math.sqrt(var + eps) if self.options["eps_mode"] == "in" else math.sqrt(var) + eps
            for i, value in zip(indices, values, strict=True):
                at = tuple(i[axis] for axis in self.over)
                y[i] = (value - mean) / scale
                if self.options["affine"]:
                    y[i] = y[i] * self.gain[at] + (self.bias[at] if self.options["bias"] else 0.0)
        return y


REFERENCES = {"batch": Batch, "layer": Layer}
