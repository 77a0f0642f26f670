"""Naive normalizers in float64: loops over index tuples, one value after the other, straight from the formulas.

Written apart from the implementation and without its tricks, so that the two can only agree by both being right.
`tests/reference/NAME.py` holds the class `Reference` of the normalizer NAME; it is found by that name.
"""

from __future__ import annotations

import importlib
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

Index = tuple[int, ...]
DEFAULT: Mapping[str, Any] = MappingProxyType({})  # no option is set otherwise for the evaluation


class Base:
    """Made as `Reference(axes, sizes, options)` with the size of every axis; the test sets `gain` and `bias`.

    A call is one forward pass: `reference(x, training)`, where `hold` repeats a pass with what the paper detaches
    from the gradient held at its value for `hold` instead of x. `mask` is True at valid (sample, time) positions.
    """

    affine_over: tuple[str, ...] = ("feature",)

    def __init__(self, axes: tuple[str, ...], sizes: Index, options: Mapping[str, Any]) -> None:
        self.axes, self.options = axes, options
        self.feature = axes.index("feature")
        self.scale = 1 / math.sqrt(sizes[self.feature]) if options.get("scale") == "inverse_root_d" else 1.0
        self.affine_axes = [i for i, axis in enumerate(axes) if axis in self.affine_over]
        self.affine_shape = tuple(sizes[i] for i in self.affine_axes)
        self.gain = np.full(self.affine_shape, options.get("gain_init", 1.0))
        self.bias = np.zeros(self.affine_shape)

    def __call__(
        self,
        x: np.ndarray,
        training: bool,
        track: bool = True,
        variant: Mapping[str, Any] = DEFAULT,
        mask: np.ndarray | None = None,
        hold: np.ndarray | None = None,
    ) -> np.ndarray:
        raise NotImplementedError

    def begin_epoch(self) -> None:
        """As the normalizer's."""

    def end_epoch(self) -> None:
        """As the normalizer's."""

    def begin_pass(self) -> None:
        """As the normalizer's: calls in training mode are those of a pass over the training batches from now on."""

    def end_pass(self) -> None:
        """As the normalizer's."""

    def affine(self, index: Index, value: float) -> float:
        """The fixed factor, gain and shift of one value, as far as the options have them."""
        value *= self.scale
        if not self.options.get("affine"):
            return value
        at = tuple(index[axis] for axis in self.affine_axes)
        return float(value * self.gain[at] + (self.bias[at] if self.options["bias"] else 0.0))

    def all_but(self, *names: str) -> list[int]:
        return [i for i, axis in enumerate(self.axes) if axis not in names]

    def only(self, *names: str) -> list[int]:
        return [i for i, axis in enumerate(self.axes) if axis in names]


def groups(shape: Index, kept: list[int]) -> dict[Index, list[Index]]:
    """All indices of an array, gathered by their coordinates on the axes `kept`."""
    found: dict[Index, list[Index]] = {}
    for index in every(shape):
        found.setdefault(tuple(index[axis] for axis in kept), []).append(index)
    return found


def every(shape: Index) -> Iterator[Index]:
    return itertools.product(*(range(size) for size in shape))


def mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)


def variance(values: list[float], ddof: int = 0, about: float | None = None) -> float:
    """Mean square about their mean, or about another value."""
    centre = mean(values) if about is None else about
    return math.fsum((v - centre) ** 2 for v in values) / (len(values) - ddof)


def of(name: str) -> Callable[..., Base]:
    """The reference of a normalizer; an AssertionError says where it is missing."""
    assert (Path(__file__).parent / f"{name}.py").exists(), f"write a naive float64 tests/reference/{name}.py"
    found: Callable[..., Base] = importlib.import_module(f"reference.{name}").Reference
    return found
