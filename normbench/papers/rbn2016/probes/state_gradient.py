"""Cooijmans et al. 2016, section 4: how a gradient goes back through a normalized tanh RNN, by the gain."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from normbench import data
from normbench.config.spec import Spec
from normbench.core.streams import stream
from normbench.models.base import Sites
from normbench.rnn.cells import RNNCell, State
from normbench.train import probes

EVERY = 28  # steps from one record to the next: a row of an image
DEVIATIONS = np.linspace(0, 1, 101)


def compute(spec: Spec) -> list[dict[str, Any]]:
    """||dL/dh_t|| of each step t, averaged over a batch of training images, in training mode and float64 (Fig. 1a).

    L is the mean cross-entropy after the last step T. h_t = tanh(N(W_h h_{t-1} + W_x x_t)) with W_h = I or orthogonal
    (`recurrent_weights`), W_x and the softmax's matrix orthogonal, and Gaussian noise of standard deviation `noise` for
    h_0. `decades` is
    log10(||dL/dh_1|| / ||dL/dh_T||). Fig. 1b: `derivative` is E tanh'(s z), z ~ N(0, 1), with the gain for s;
    `derivative_rise` its largest difference from one s in 0, 0.01, ..., 1 to the next.
    """
    options, batch, seed = spec.config["model"], spec.config["train"]["batch_size"], spec.seed
    size, draw = options["hidden_size"], partial(probes.draw, seed)
    split = data.load(spec.config["data"], seed=seed).splits["train"]
    rows = stream(seed, "probe", "images").permutation(len(split))[:batch]
    images = split.batch(torch.from_numpy(rows)).tensors
    x = images["inputs"].double().transpose(0, 1)
    cell = RNNCell(x.shape[2], size, sites=Sites(spec.config, spec.sites), path="rnn", bias="none").double()
    with torch.no_grad():
        if options["recurrent_weights"] == "identity":
            cell.weight_hh.copy_(torch.eye(size))
        else:
            cell.weight_hh.copy_(torch.linalg.qr(draw("recurrent", size, size)).Q)
        cell.weight_ih.copy_(torch.linalg.qr(draw("inputs", size, x.shape[2])).Q)
    readout = torch.linalg.qr(draw("readout", size, spec.config["data"]["declares"]["classes"])).Q

    state: State = (options["noise"] * draw("initial state", batch, size),)
    weights, states = cell.sequence_weights(batch), []
    for t, product in enumerate(x @ cell.weight_ih.T):
        state = cell.step(cell.input_step(product, t, None), state, weights, t)
        states.append(state[0])
    loss = F.cross_entropy(states[-1] @ readout, images["targets"])
    norms = [float(dh.norm(dim=-1).mean()) for dh in torch.autograd.grad(loss, states)]
    curve = expected_derivative(DEVIATIONS)
    numbers = {
        "decades": float(np.log10(norms[0] / norms[-1])),
        "derivative": float(expected_derivative(np.array([spec.config["norm"]["gain_init"]]))[0]),
        "derivative_rise": float(np.diff(curve).max()),
    }
    recorded = sorted({1, *range(EVERY, len(norms), EVERY), len(norms)})
    return [numbers, *({"epoch": t, "step": t, "gradient": norms[t - 1]} for t in recorded)]


def expected_derivative(deviations: np.ndarray) -> np.ndarray:
    """E tanh'(s z), z ~ N(0, 1), of each s, by Gauss-Hermite quadrature with 200 nodes."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(200)
    return (1 - np.tanh(np.multiply.outer(deviations, nodes)) ** 2) @ weights / weights.sum()
