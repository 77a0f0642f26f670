"""DRAW, one picture, one filter and one pixel after the other, from the formulas of Gregor et al. 2015 and
jbornschein/draw.

Parameters by the names of `normbench.models.draw`; `seen` is what the cell's value becomes before its tanh, by LSTM.
Nothing here is shared with the package.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

Array = np.ndarray


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def filters(place: float, log_stride: float, log_variance: float, n: int, side: int) -> list[list[float]]:
    centre = (place + 1) / 2 * side
    stride = (side - 1) / max(n - 1, 1) * math.exp(log_stride)
    found = []
    for i in range(n):
        mean = centre + (i - n / 2 + 0.5) * stride
        row = [math.exp(-((a - mean) ** 2) / (2 * math.exp(log_variance))) for a in range(side)]
        found.append([value / (sum(row) + 1e-4) for value in row])
    return found


def window(given: Sequence[float], n: int, side: int) -> tuple[list[list[float]], list[list[float]], float]:
    y, x, log_stride, log_variance, log_intensity = map(float, given)
    rows = filters(y, log_stride, log_variance, n, side)
    return rows, filters(x, log_stride, log_variance, n, side), math.exp(log_intensity)


def read(image: Array, canvas: Array, given: Sequence[float], n: int) -> list[float]:
    """Of one picture (side, side)."""
    side = len(image)
    rows, columns, intensity = window(given, n, side)
    error = [[image[y][x] - sigmoid(canvas[y][x]) for x in range(side)] for y in range(side)]
    return [
        intensity * sum(rows[i][y] * what[y][x] * columns[j][x] for y in range(side) for x in range(side))
        for what in (image, error)
        for i in range(n)
        for j in range(n)
    ]


def write(canvas: Array, patch: Sequence[float], given: Sequence[float], n: int) -> Array:
    side = len(canvas)
    rows, columns, intensity = window(given, n, side)
    drawn = canvas.copy()
    for y in range(side):
        for x in range(side):
            drawn[y][x] += sum(
                rows[i][y] * patch[i * n + j] * columns[j][x] for i in range(n) for j in range(n)
            ) / intensity  # fmt: skip
    return drawn


def lstm(
    p: Mapping[str, Array], name: str, x: Array, h: Array, c: Array, seen: Callable[[Array], Array]
) -> tuple[Array, Array]:
    """Rows f, i, o, g."""
    cell = f"{name}.cells.0."
    z = p[cell + "weight_ih"] @ x + p[cell + "weight_hh"] @ h
    z = z + sum(p[cell + name] for name in ("bias", "bias_ih", "bias_hh") if cell + name in p)
    f, i, o, g = z.reshape(4, -1)
    c = np.array([sigmoid(v) for v in f]) * c + np.array([sigmoid(v) for v in i]) * np.tanh(g)
    return np.array([sigmoid(v) for v in o]) * np.tanh(seen(c)), c


def bound(
    p: Mapping[str, Array],
    image: Array,
    noise: Array,
    sizes: tuple[int, int],
    seen: Mapping[str, Callable[[Array], Array]],
) -> tuple[float, float]:
    """Bound and KL of one picture (side, side) with noise (T, z); `sizes` of the windows read and written."""

    def linear(name: str, x: Array) -> Array:
        return p[f"{name}.linear.weight"] @ x + p[f"{name}.linear.bias"]

    hidden = p["encoder.cells.0.weight_hh"].shape[1]
    h_read, c_read, h_write, c_write = (np.zeros(hidden) for _ in range(4))
    canvas, kl = np.zeros_like(image), 0.0
    for epsilon in noise:
        r = read(image, canvas, linear("window.read", h_write), sizes[0])
        h_read, c_read = lstm(p, "encoder", np.concatenate([r, h_write]), h_read, c_read, seen["encoder"])
        mean, log_sigma = linear("latent", h_read).reshape(2, -1)
        kl += sum(0.5 * (math.exp(2 * s) + m * m) - s - 0.5 for m, s in zip(mean, log_sigma, strict=True))
        z = mean + np.exp(log_sigma) * epsilon
        h_write, c_write = lstm(p, "decoder", z, h_write, c_write, seen["decoder"])
        canvas = write(canvas, linear("patch", h_write), linear("window.write", h_write), sizes[1])
    nll = 0.0
    for x, value in zip(image.ravel(), canvas.ravel(), strict=True):
        nll -= x * math.log(sigmoid(value)) + (1 - x) * math.log(sigmoid(-value))
    return nll + kl, kl
