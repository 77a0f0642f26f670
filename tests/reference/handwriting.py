"""Handwriting, one line, one point and one Gaussian after the other, from the formulas of Graves 2013 (3.1, 4.1, 5) and
LN 2016 (eq. 17-22); gradients by hand, where derivatives are bounded on their way back.

Parameters by the names of `normbench.models.handwriting`. Nothing here is shared with the package.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

Array = np.ndarray
Norm = Callable[[Array], Array]


def sigma(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def window(
    given: Sequence[float], places: Sequence[float], letters: Sequence[int], symbols: int, shift: float
) -> tuple[Array, list[float], list[float]]:
    """What is seen of a text, the next places, and the weight of each letter (Graves 2013, eq. 46-51)."""
    n = len(places)
    after = [place + math.exp(given[2 * n + k] + shift) for k, place in enumerate(places)]
    phi = [
        sum(math.exp(given[k]) * math.exp(-math.exp(given[n + k]) * (after[k] - u) ** 2) for k in range(n))
        for u in range(len(letters))
    ]
    seen = np.zeros(symbols)
    for letter, weight in zip(letters, phi, strict=True):
        seen[letter] += weight
    return seen, after, phi


def lstm(p: Mapping[str, Array], name: str, x: Array, h: Array, c: Array, norms: Mapping[str, Norm]) -> list[Array]:
    """Next h and c; rows f, i, o, g. `norms` by input, hidden and cell."""
    cell = f"{name}.cells.0."
    gates = norms["input"](p[cell + "weight_ih"] @ x) + norms["hidden"](p[cell + "weight_hh"] @ h) + p[cell + "bias"]
    f, i, o, g = gates.reshape(4, -1)
    c = sigma(f) * c + sigma(i) * np.tanh(g)
    return [sigma(o) * np.tanh(norms["cell"](c)), c]


def mixture(y: Sequence[float], dx: float, dy: float, end: float, most: float) -> float:
    """-log of the density of one point (Graves 2013, eq. 16-26): y is π̂, μ_x, μ_y, log σ_x, log σ_y, ρ̂ of each
    Gaussian by turns of kind, then ê; `most` of a correlation.
    """
    count = (len(y) - 1) // 6
    parts = [y[kind * count : (kind + 1) * count] for kind in range(6)]
    total = sum(math.exp(v) for v in parts[0])
    density = 0.0
    for weight, mx, my, sx, sy, r in zip(*parts, strict=True):
        sx, sy, rho = math.exp(sx), math.exp(sy), min(max(math.tanh(r), -most), most)
        a, b = (dx - mx) / sx, (dy - my) / sy
        z = a * a + b * b - 2 * rho * a * b
        normal = math.exp(-z / (2 * (1 - rho**2))) / (2 * math.pi * sx * sy * math.sqrt(1 - rho**2))
        density += math.exp(weight) / total * normal
    lifted = 1 / (1 + math.exp(-y[-1]))
    return -math.log(density) - math.log(lifted if end else 1 - lifted)


def nll(
    p: Mapping[str, Array],
    line: Array,
    letters: Sequence[int],
    symbols: int,
    shift: float,
    norms: Mapping[str, Mapping[str, Norm]],
) -> float:
    """Of one line (points, 3) with its text: the sum over its points but the first."""
    size = p["first.cells.0.weight_hh"].shape[1]
    states = {name: [np.zeros(size), np.zeros(size)] for name in ("first", "second", "third")}
    seen, places, total = np.zeros(symbols), [0.0] * (len(p["window.linear.bias"]) // 3), 0.0
    for x, target in itertools.pairwise(line):
        states["first"] = lstm(p, "first", np.concatenate([x, seen]), *states["first"], norms["first"])
        given = p["window.linear.weight"] @ states["first"][0] + p["window.linear.bias"]
        seen, places, _ = window(given, places, letters, symbols, shift)
        for name, below in (("second", "first"), ("third", "second")):
            states[name] = lstm(p, name, np.concatenate([x, states[below][0], seen]), *states[name], norms[name])
        every = np.concatenate([states[n][0] for n in states])
        y = [v for n in ("output", "lift") for v in p[f"{n}.linear.weight"] @ every + p[f"{n}.linear.bias"]]
        total += mixture(y, *map(float, target), most=1 - 1e-6)
    return total


def clipped_gradient(p: Mapping[str, Array], x: Array, dout: Array, bound: float) -> dict[str, Array]:
    """Of a plain LSTM over one sequence x (T, I) with derivatives dout (T, H) of its outputs: gradients of the weights
    and of x, where those of the gates are kept within ± bound as they go back.
    """
    size, steps = dout.shape[1], len(x)
    h, c, kept = np.zeros((steps + 1, size)), np.zeros((steps + 1, size)), []
    for t in range(steps):
        f, i, o, g = (p["weight_ih"] @ x[t] + p["weight_hh"] @ h[t] + p["bias"]).reshape(4, -1)
        f, i, o, g = sigma(f), sigma(i), sigma(o), np.tanh(g)
        c[t + 1] = f * c[t] + i * g
        h[t + 1] = o * np.tanh(c[t + 1])
        kept.append((f, i, o, g))
    found = {name: np.zeros_like(value) for name, value in p.items()} | {"x": np.zeros_like(x)}
    dh, dc = np.zeros(size), np.zeros(size)
    for t in reversed(range(steps)):
        f, i, o, g = kept[t]
        dh = dh + dout[t]
        squashed = np.tanh(c[t + 1])
        dc = dc + dh * o * (1 - squashed**2)
        gates = [dc * c[t] * f * (1 - f), dc * g * i * (1 - i), dh * squashed * o * (1 - o), dc * i * (1 - g**2)]
        d = np.clip(np.concatenate(gates), -bound, bound)
        found["weight_ih"] += np.outer(d, x[t])
        found["weight_hh"] += np.outer(d, h[t])
        found["bias"] += d
        found["x"][t] = p["weight_ih"].T @ d
        dh, dc = p["weight_hh"].T @ d, dc * f
    return found
