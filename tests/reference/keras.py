"""tf.keras' layers of BLN 2022: layer normalization, and the LSTM with `implementation=1`, gate by gate, step by step.

The LSTM is keras.layers.LSTMCell.call, in its own order and layout of weights: kernel (in, 4 units), recurrent_kernel
(units, 4 units), bias (4 units) in the order i, f, c, o; dropout masks already divided by 1 - p, one for each gate in
that order. Nothing here is shared with the package.
"""

from __future__ import annotations

import numpy as np
import torch

Array = np.ndarray
GATES = ("i", "f", "c", "o")


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def lstm(x: Array, kernel: Array, recurrent: Array, bias: Array, drop_x: list[Array], drop_h: list[Array]) -> Array:
    """Outputs of all steps (B, T, units) of x (B, T, in); masks (B, in) and (B, units)."""
    units = recurrent.shape[0]
    h = c = np.zeros((len(x), units))
    outputs = []
    for t in range(x.shape[1]):
        z = {}
        for k, gate in enumerate(GATES):
            columns = slice(k * units, (k + 1) * units)
            z[gate] = (x[:, t] * drop_x[k]) @ kernel[:, columns] + bias[columns]
            z[gate] = z[gate] + (h * drop_h[k]) @ recurrent[:, columns]
        c = sigmoid(z["f"]) * c + sigmoid(z["i"]) * np.tanh(z["c"])
        h = sigmoid(z["o"]) * np.tanh(c)
        outputs.append(h)
    return np.stack(outputs, 1)


def layer_normalization(x: torch.Tensor, gain: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    """tf.keras.layers.LayerNormalization: over the last axis, position by position."""
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + 1e-3).sqrt() * gain + shift
