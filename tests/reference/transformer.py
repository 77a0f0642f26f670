"""A small Transformer, one example, one head and one step after the other, from the formulas of its papers.

Parameters by the names of `normbench.models.transformer`; layer normalization where there is a gain and a bias. Nothing
here is shared with the package.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

Array = np.ndarray
Parameters = Mapping[str, Array]


def linear(p: Parameters, name: str, x: Array) -> Array:
    return np.stack([p[f"{name}.weight"] @ row + p[f"{name}.bias"] for row in x])


def norm(p: Parameters, name: str, x: Array) -> Array:
    """Each row with mean 0 and variance 1, then gain and bias; x where nothing is normalized."""
    if f"{name}.gain" not in p:
        return x
    rows = []
    for row in x:
        mean = sum(row) / len(row)
        variance = sum((value - mean) ** 2 for value in row) / len(row)
        rows.append((row - mean) / math.sqrt(variance + 1e-5) * p[f"{name}.gain"] + p[f"{name}.bias"])
    return np.stack(rows)


def gelu(x: Array) -> Array:
    """x times the probability that a standard normal number is less."""
    return np.vectorize(lambda value: value * (1 + math.erf(value / math.sqrt(2))) / 2)(x)


def attention(p: Parameters, name: str, x: Array, heads: int, causal: bool) -> Array:
    """Vaswani et al. 2017, 3.2."""
    steps, width = x.shape
    size = width // heads
    q, k, v = (linear(p, f"{name}.{part}", x) for part in ("query", "key", "value"))
    mixed = np.zeros((steps, width))
    for head in range(heads):
        of = slice(head * size, (head + 1) * size)
        queries = norm(p, f"{name}.norms.query", q[:, of])
        keys = norm(p, f"{name}.norms.key", k[:, of])
        for t in range(steps):
            visible = range(t + 1 if causal else steps)
            weights = np.array([math.exp(queries[t] @ keys[s] / math.sqrt(size)) for s in visible])
            mixed[t, of] = sum(w * v[s, of] for w, s in zip(weights / weights.sum(), visible, strict=True))
    return linear(p, f"{name}.output", mixed)


def mlp(p: Parameters, name: str, x: Array) -> Array:
    return linear(p, f"{name}.output", gelu(linear(p, f"{name}.hidden", x)))


def stream(p: Parameters, x: Array, layers: int, heads: int, placement: str, causal: bool) -> Array:
    """What the head gets of one example, embedded (T, d)."""
    x = x + p["positions.weight"][: len(x)]
    for block in (f"block.{i}" for i in range(layers)):
        branches = {
            "attention": lambda z, block=block: attention(p, f"{block}.attention", z, heads, causal),
            "mlp": lambda z, block=block: mlp(p, f"{block}.mlp", z),
        }
        for name, branch in branches.items():
            place = f"{block}.norms.{name}"
            if placement == "pre":
                x = x + branch(norm(p, place, x))
            elif placement == "post":
                x = norm(p, place, x + branch(x))
            else:
                x = x + norm(p, f"{place}_out", branch(norm(p, place, x)))
    return norm(p, "norms.final", x)


def language(p: Parameters, text: Array, scale: float, heads: int, placement: str, layers: int) -> Array:
    """Logits (T, characters) of the character behind each of a text."""
    head = p.get("logits.weight", p["embedding.weight"])
    x = stream(p, scale * p["embedding.weight"][text], layers, heads, placement, True)
    return np.stack([head @ row + p["logits.bias"] for row in x])


def vision(p: Parameters, image: Array, patch: int, heads: int, placement: str, layers: int) -> Array:
    """Logits (classes,) of an image (height, width, channels)."""
    height, width, _ = image.shape
    patches = [
        image[top : top + patch, left : left + patch].ravel()
        for top in range(0, height, patch)
        for left in range(0, width, patch)
    ]
    x = stream(p, linear(p, "patches", np.stack(patches)), layers, heads, placement, False)
    return p["logits.weight"] @ x.mean(0) + p["logits.bias"]


def nll(logits: Array, target: int) -> float:
    return math.log(sum(math.exp(logit) for logit in logits)) - float(logits[target])
