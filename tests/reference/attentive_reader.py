"""The attentive reader, one question and one step after the other, from the formulas of its code.

Parameters by the names of `normbench.models.attentive_reader`; `norms` by site, each a function of (z (rows, features),
step). Nothing here is shared with the package.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from reference.recurrent import Norms, lstm, same

Array = np.ndarray


def batch_norm(gain: Array, bias: Array | float, eps: float) -> object:
    """Statistics over all rows at hand, biased."""

    def apply(z: Array, t: int) -> Array:
        mean = sum(z) / len(z)
        variance = sum((row - mean) ** 2 for row in z) / len(z)
        return np.stack([gain * (row - mean) / np.sqrt(variance + eps) + bias for row in z])

    return apply


def encoded(p: Mapping[str, Array], norms: Norms, which: str, x: Array, mask: Array) -> Array:
    """Outputs (T, B, H) of one LSTM: N(U h) + N(W x + b) + b, c_0 = 0, h_0 learned."""
    cell = {name: p[f"{which}.cells.0.{name}"] for name in ("weight_ih", "weight_hh", "bias", "h0")}
    own = {name: norms.get(f"lstm.{which}.{name}", same) for name in ("input", "hidden", "cell")}
    by_input = own["input"]
    own["input"] = lambda z, t: by_input(z + cell["bias"], t)
    h0 = np.tile(cell["h0"], (x.shape[1], 1))
    return lstm(x, cell, own, h0, np.zeros_like(h0), mask, 0.0)


def probabilities(
    p: Mapping[str, Array],
    norms: Norms,
    documents: tuple[Array, Array],
    questions: tuple[Array, Array],
    masks: Sequence[Array] | float,
) -> Array:
    """p (B, words) of numbers with masks, (B, T) each.

    `masks`: dropout of the documents' embeddings, the questions', and g; or the share that is kept.
    """
    kept = [masks] * 3 if isinstance(masks, float) else masks
    table = p["embedding.weight"]
    (document, valid), (question, asked) = documents, questions
    d = encoded(p, norms, "document", (table[document] * kept[0]).swapaxes(0, 1), valid.T)
    q = encoded(p, norms, "question", (table[question] * kept[1]).swapaxes(0, 1), asked.T)[-1]
    steps, count, size = d.shape

    def dense(name: str, z: Array) -> Array:
        weight, bias = p[f"dense.{name}.linear.weight"], p.get(f"dense.{name}.linear.bias", 0.0)
        return norms.get(f"dense.{name}", same)(z @ weight.T + bias, 0)

    from_document = dense("document", d.reshape(steps * count, size)).reshape(steps, count, size)
    from_question = dense("question", q)
    context, mean = np.zeros((count, size)), np.zeros((count, size))
    for row in range(count):
        own = [t for t in range(steps) if valid[row, t]]
        weights = []
        for t in own:
            s = float((p["similarity.weight"] @ d[t, row]) @ (p["similarity.weight"] @ q[row]))
            hidden = np.tanh(from_document[t, row] + from_question[row] + s)
            weights.append(np.exp(float(p["attention.weight"][0] @ hidden)))
        context[row] = sum(w * d[t, row] for w, t in zip(weights, own, strict=True)) / sum(weights)
        mean[row] = sum(d[t, row] for t in own) / len(own)
    g = np.tanh(dense("context", context) + dense("query", q) + dense("mean", mean)) * kept[2]
    logits = g @ p["output.weight"].T + p["output.bias"]
    each = np.exp(logits - logits.max(1, keepdims=True))
    return each / each.sum(1, keepdims=True)
