"""Naive normalizers of weights and blocks in float64: one unit and one value after the other, from the formulas.

Each is made as `Reference(weight, bias, activation, options)` with the weight as rows (units, fan-in), and called with
`rows` (values, fan-in): a convolution's patches are rows too. The test sets `gain`, where there is one, and `weight`.
`REFERENCES` is by the name in `conf/norm`; `FREE` says of what scale of the weights the output is free, gain held.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy.integrate import quad

ACTIVATIONS = {"relu": lambda z: max(z, 0.0), "tanh": math.tanh, "sigmoid": lambda z: 1 / (1 + math.exp(-z))}


def dot(a: Any, b: Any) -> float:
    return math.fsum(float(p) * float(q) for p, q in zip(a, b, strict=True))


def length(a: Any) -> float:
    return math.sqrt(dot(a, a))


def products(rows: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return np.array([[dot(row, w) for w in weight] for row in rows])


class Weight:
    """11.5: v is the weight given; its norm is divided out and g put in; data-dependent starts; mean-only BN."""

    def __init__(
        self, weight: np.ndarray, bias: np.ndarray | None, activation: str, options: Mapping[str, Any]
    ) -> None:
        self.weight, self.bias, self.options = weight, bias, options
        self.act = ACTIVATIONS[activation]
        own = 1.0 if options["init"] == "lasagne" else None
        self.gain = np.array([length(w) if own is None else own for w in weight])
        self.waits = options["init"] != "preserve"
        self.running = [0.0] * len(weight)

    def effective(self) -> np.ndarray:
        return np.array([[g * v / length(w) for v in w] for g, w in zip(self.gain, self.weight, strict=True)])

    def __call__(self, rows: np.ndarray, training: bool) -> np.ndarray:
        if training and self.waits:
            self._start(rows)
        z = products(rows, self.effective())
        for unit in range(z.shape[1]):
            mean = 0.0
            if self.options["mean_only_bn"]:
                mean = math.fsum(z[:, unit]) / len(z) if training else self.running[unit]
                if training:
                    m = self.options["momentum"]
                    self.running[unit] = (1 - m) * self.running[unit] + m * mean
            for n in range(len(z)):
                z[n, unit] = self.act(z[n, unit] - mean + (0.0 if self.bias is None else self.bias[unit]))
        return z

    def _start(self, rows: np.ndarray) -> None:
        for unit, w in enumerate(self.weight):
            t = [dot(row, w) / length(w) for row in rows]
            mean = math.fsum(t) / len(t)
            var = math.fsum((value - mean) ** 2 for value in t) / len(t)
            if self.options["init"] == "data":
                self.gain[unit] = self.options["init_scale"] / math.sqrt(var + 1e-10)
                shift = -mean * self.gain[unit]
            else:
                self.gain[unit] = 1.0 / math.sqrt(var)
                shift = -mean / math.sqrt(var)
            if self.bias is not None and not self.options["mean_only_bn"]:
                self.bias[unit] = shift
        self.waits = False


class Spectral:
    """11.6: u and v of the power method, kept between passes; the test sets them to the module's start."""

    def __init__(
        self, weight: np.ndarray, bias: np.ndarray | None, activation: str, options: Mapping[str, Any]
    ) -> None:
        self.weight, self.bias, self.options = weight, bias, options
        self.act = ACTIVATIONS[activation]
        self.u = self.v = np.zeros(0)

    def _unit(self, a: list[float]) -> np.ndarray:
        return np.array(a) / max(length(a), self.options["eps"])

    def effective(self) -> np.ndarray:
        return self.weight / dot(self.u, [dot(w, self.v) for w in self.weight])

    def __call__(self, rows: np.ndarray, training: bool) -> np.ndarray:
        for _ in range(self.options["iterations"] if training else 0):
            self.u = self._unit([dot(w, self.v) for w in self.weight])
            self.v = self._unit([dot(column, self.u) for column in self.weight.T])
        z = products(rows, self.effective()) + (0.0 if self.bias is None else self.bias)
        return np.array([[self.act(value) for value in row] for row in z])


@functools.cache
def moments(activation: str) -> tuple[float, float]:
    """Mean and standard deviation of act(z), z ~ N(0, 1), by quadrature on either side of ReLU's corner."""
    act = ACTIVATIONS[activation]

    def expected(f: Callable[[float], float]) -> float:
        def density(z: float) -> float:
            return f(z) * math.exp(-z * z / 2) / math.sqrt(2 * math.pi)

        return math.fsum(quad(density, a, b, epsabs=1e-14)[0] for a, b in ((-math.inf, 0.0), (0.0, math.inf)))

    mean = expected(act)
    return mean, math.sqrt(expected(lambda z: act(z) ** 2) - mean**2)


class NormPropagation:
    """11.13: the norm divided out, the gain put in, the moments of the activation taken away."""

    def __init__(
        self, weight: np.ndarray, bias: np.ndarray | None, activation: str, options: Mapping[str, Any]
    ) -> None:
        self.weight, self.bias = weight, bias
        self.act = ACTIVATIONS[activation]
        self.gain = np.full(len(weight), options["gain_init"])
        self.mean, self.std = moments(activation)

    effective = Weight.effective

    def __call__(self, rows: np.ndarray, training: bool) -> np.ndarray:
        z = products(rows, self.effective()) + (0.0 if self.bias is None else self.bias)
        return np.array([[(self.act(value) - self.mean) / self.std for value in row] for row in z])


class WeightStandardization:
    """Each unit's weights less their mean, over their standard deviation and eps."""

    def __init__(
        self, weight: np.ndarray, bias: np.ndarray | None, activation: str, options: Mapping[str, Any]
    ) -> None:
        self.weight, self.bias, self.options = weight, bias, options
        self.act = ACTIVATIONS[activation]

    def effective(self) -> np.ndarray:
        found = []
        for w in self.weight:
            mean = math.fsum(w) / len(w)
            std = math.sqrt(math.fsum((v - mean) ** 2 for v in w) / len(w))
            found.append([(v - mean) / (std + self.options["eps"]) for v in w])
        return np.array(found)

    def __call__(self, rows: np.ndarray, training: bool) -> np.ndarray:
        z = products(rows, self.effective()) + (0.0 if self.bias is None else self.bias)
        return np.array([[self.act(value) for value in row] for row in z])


REFERENCES = {
    "weight": Weight,
    "spectral": Spectral,
    "norm_propagation": NormPropagation,
    "weight_standardization": WeightStandardization,
}
FREE = {  # LN 2016, Table 1: first and third column
    "weight": "unit",
    "spectral": "matrix",
    "norm_propagation": "unit",
    "weight_standardization": "unit",
}
