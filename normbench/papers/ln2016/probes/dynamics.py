"""LN 2016, section 3.1: do the summed inputs of a recurrent layer, and the gradients, grow or shrink step by step?"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch

from normbench.config.spec import Spec
from normbench.core.streams import stream
from normbench.models.base import Sites
from normbench.rnn.cells import RNNCell
from normbench.train import probes

RECORDED = (1, 2, 3, 5, 7, 10, 15, 20, 30, 40, 50, 60, 70, 80, 90, 100)  # steps that get a record
DELAY = 5


def compute(spec: Spec) -> list[dict[str, Any]]:
    """Per step t the mean of |a_t|, a_t = W_hh h_{t-1} + W_xh x_t before any normalization, and ||dL/dh_t||.

    L = v·h_T, averaged over the sequences of the batch; in training mode, in float64. `magnitude_slope` and
    `gradient_slope` are least squares slopes of their natural logarithms over t, per step; a gradient that explodes on
    the way back has a negative slope. W_hh is Gaussian, scaled to the spectral radius `radius ** radius_power`; W_xh
    x_t has the standard deviation `input_std`. With `updates` the cell is trained before: see `_train`.
    """
    options, batch = spec.config["model"], spec.config["train"]["batch_size"]
    size, steps, seed = options["hidden_size"], options["steps"], spec.seed

    draw = partial(probes.draw, seed)
    cell = RNNCell(
        options["inputs"],
        size,
        sites=Sites(spec.config, spec.sites),
        path="rnn",
        bias="none",
        nonlinearity=options["activation"],
    ).double()
    recurrent = draw("recurrent", size, size)
    radius = options["radius"] ** options["radius_power"]
    recurrent *= radius / float(np.abs(np.linalg.eigvals(recurrent.numpy())).max())
    with torch.no_grad():
        cell.weight_hh.copy_(recurrent)
        cell.weight_ih.copy_(options["input_std"] * draw("inputs", size, options["inputs"]) / options["inputs"] ** 0.5)
    _train(cell, options["updates"], steps, batch, seed)
    x = draw("x", steps, batch, options["inputs"])
    if options["drive"] == "first":
        x[1:] = 0.0
    readout = draw("readout", size)

    magnitudes, states = [], []
    state, weights = cell.initial(batch), cell.sequence_weights(batch, None)
    for t in range(steps):
        product = x[t] @ cell.weight_ih.T
        magnitudes.append(float((state[0] @ cell.weight_hh.T + product).detach().abs().mean()))
        state = cell.step(cell.input_step(product, t, None), state, weights, t)
        states.append(state[0])
    derivatives = torch.autograd.grad((states[-1] @ readout).mean(), states)
    gradients = [batch * float(dh.norm(dim=-1).mean()) for dh in derivatives]
    slopes = {"magnitude_slope": _slope(magnitudes), "gradient_slope": _slope(gradients)}
    numbers = slopes | {f"{key}_size": abs(value) for key, value in slopes.items()}
    return [
        numbers,
        *(
            {"epoch": t, "step": t, "magnitude": magnitudes[t - 1], "gradient": gradients[t - 1]}
            for t in RECORDED
            if t <= steps
        ),
    ]


def _train(cell: RNNCell, updates: int, steps: int, batch: int, seed: int) -> None:
    """Adam at 1e-3 on all parameters and a readout r of h_t: mean (r·h_t - x_{t-DELAY,1})^2 on new sequences each."""
    readout = torch.nn.Parameter(torch.zeros(cell.hidden_size, dtype=torch.float64))
    optimizer = torch.optim.Adam([*cell.parameters(), readout], lr=1e-3)
    for update in range(updates):
        x = torch.from_numpy(stream(seed, "probe training", update).standard_normal((steps, batch, cell.input_size)))
        state, weights, states = cell.initial(batch), cell.sequence_weights(batch, None), []
        for t in range(steps):
            state = cell.step(cell.input_step(x[t] @ cell.weight_ih.T, t, None), state, weights, t)
            states.append(state[0])
        optimizer.zero_grad()
        (torch.stack(states[DELAY:]) @ readout - x[:-DELAY, :, 0]).square().mean().backward()
        optimizer.step()


def _slope(values: list[float]) -> float:
    """Of log(value) over t = 1, 2, ...; NaN where one of them is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.polyfit(np.arange(len(values)), np.log(values), 1)[0]) if min(values) > 0 else float("nan")
