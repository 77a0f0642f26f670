"""The cells of the LN paper's supplement, one sequence position, one row and one equation after the other.

Parameters and normalizers come as dictionaries by the names of `normbench.rnn.cells`; a normalizer is a function of
(z (B, features), t). Nothing here is shared with the package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

Array = np.ndarray
Norms = Mapping[str, Callable[[Array, int], Array]]


def sigma(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def layer_norm(gain: Array, bias: Array, eps: float) -> Callable[[Array, int], Array]:
    """Eq. 15 and 16, with the eps of the authors' code."""

    def apply(z: Array, t: int) -> Array:
        out = np.empty_like(z)
        for row, values in enumerate(z):
            mu = sum(values) / len(values)
            sd = np.sqrt(sum((v - mu) ** 2 for v in values) / len(values) + eps)
            out[row] = (values - mu) / sd * gain + bias
        return out

    return apply


def batch_norm(gain: Array, bias: Array, eps: float, counted: Array) -> Callable[[Array, int], Array]:
    """Each feature over those rows that are counted (T, B) at this step; the others, which nobody sees, get 0."""

    def apply(z: Array, t: int) -> Array:
        out = np.zeros_like(z)
        for k, column in enumerate(z.T):
            values = column[counted[t]]
            mu = sum(values) / len(values)
            sd = np.sqrt(sum((v - mu) ** 2 for v in values) / len(values) + eps)
            out[counted[t], k] = (values - mu) / sd * gain[k] + bias[k]
        return out

    return apply


def same(z: Array, t: int) -> Array:
    return z


def lstm(x: Array, p: Mapping[str, Array], norms: Norms, h: Array, c: Array, mask: Array, forget_bias: float) -> Array:
    """Eq. 20-22 (17-19 where nothing is normalized) over x (T, B, I); outputs (T, B, H)."""
    size = h.shape[1]
    n_x, n_h, n_c = (norms.get(name, same) for name in ("input", "hidden", "cell"))
    outputs = []
    for t in range(len(x)):
        gates = n_h(h @ p["weight_hh"].T, t) + n_x(x[t] @ p["weight_ih"].T, t) + p["bias"]
        f, i, o, g = (gates[:, k * size : (k + 1) * size] for k in range(4))
        new_c = sigma(f + forget_bias) * c + sigma(i) * np.tanh(g)
        valid = mask[t][:, None]
        c = np.where(valid, new_c, c)
        h = np.where(valid, sigma(o) * np.tanh(n_c(c, t)), h)
        outputs.append(h)
    return np.stack(outputs)


def gru(x: Array, p: Mapping[str, Array], norms: Norms, h: Array, mask: Array, update: str) -> Array:
    """Eq. 26-28 (23-25); `old` is the authors' code, which has z and 1 - z the other way round."""
    size = h.shape[1]
    w_x, u_x = p["weight_ih"][: 2 * size], p["weight_ih"][2 * size :]
    w_h, u = p["weight_hh"][: 2 * size], p["weight_hh"][2 * size :]
    outputs = []
    for t in range(len(x)):
        gates = norms.get("hidden.gates", same)(h @ w_h.T, t) + norms.get("input.gates", same)(x[t] @ w_x.T, t)
        z, r = sigma(gates[:, :size]), sigma(gates[:, size:])
        candidate = norms.get("input.candidate", same)(x[t] @ u_x.T, t)
        n = np.tanh(candidate + r * norms.get("hidden.candidate", same)(h @ u.T, t))
        share = z if update == "new" else 1 - z
        h = np.where(mask[t][:, None], (1 - share) * h + share * n, h)
        outputs.append(h)
    return np.stack(outputs)


def rnn(x: Array, p: Mapping[str, Array], norms: Norms, h: Array, mask: Array) -> Array:
    """Eq. 4, with f = tanh."""
    outputs = []
    for t in range(len(x)):
        a = norms.get("hidden", same)(h @ p["weight_hh"].T, t) + norms.get("input", same)(x[t] @ p["weight_ih"].T, t)
        h = np.where(mask[t][:, None], np.tanh(norms.get("summed", same)(a, t)), h)
        outputs.append(h)
    return np.stack(outputs)
