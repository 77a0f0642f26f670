"""Skip-thoughts, one word after the other in float64, from section 6.3 of LN 2016 and ryankiros/skip-thoughts.

Parameters by the names of `normbench.models.skip_thoughts`. Nothing here is shared with the package.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

Array = np.ndarray


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def normed(p: Mapping[str, Array], layer: str, site: str, x: Array) -> Array:
    """LN (eq. 3), where the layer has one there."""
    name = f"{layer}.cells.0.norms.{site}"
    if f"{name}.gain" not in p:
        return x
    mean = sum(x) / len(x)
    variance = sum((v - mean) ** 2 for v in x) / len(x)
    return p[f"{name}.gain"] * (x - mean) / math.sqrt(variance + 1e-5) + p[f"{name}.bias"]


def gru(p: Mapping[str, Array], layer: str, x: Array, h: Array) -> Array:
    """LN eq. 26-28, as the authors' code: biases inside, u the share of the old state. Rows: u, r, candidate."""
    size = len(h)
    given = p[f"{layer}.cells.0.weight_ih"] @ x + p[f"{layer}.cells.0.bias"]
    kept = p[f"{layer}.cells.0.weight_hh"] @ h
    gates = normed(p, layer, "hidden_gates", kept[: 2 * size]) + normed(p, layer, "input_gates", given[: 2 * size])
    u, r = sigmoid(gates[:size]), sigmoid(gates[size:])
    inside = normed(p, layer, "hidden_candidate", kept[2 * size :]) * r
    candidate = np.tanh(inside + normed(p, layer, "input_candidate", given[2 * size :]))
    return u * h + (1 - u) * candidate


def vector(p: Mapping[str, Array], sentence: Sequence[int]) -> Array:
    h = np.zeros(p["encoder.cells.0.weight_hh"].shape[1])
    for word in sentence:
        h = gru(p, "encoder", p["embedding.weight"][word], h)
    return h


def nll(p: Mapping[str, Array], decoder: str, v: Array, sentence: Sequence[int], conditioned: bool) -> float:
    """Of a sentence's words, with its end."""
    h, x, total = v, np.zeros(p["embedding.weight"].shape[1]), 0.0
    for word in sentence:
        h = gru(p, f"decoder.{decoder}", np.concatenate([x, v]) if conditioned else x, h)
        logits = p["output.weight"] @ h + p["output.bias"]
        total -= math.log(math.exp(logits[word]) / sum(math.exp(logit) for logit in logits) + 1e-8)
        x = p["embedding.weight"][word]
    return total
