"""LN 2016, section 3: do changes of one layer's outputs change the next layer's summed inputs in a correlated way?"""

from __future__ import annotations

from functools import partial

import numpy as np
import torch

from normbench.config.spec import Spec
from normbench.train import probes

STEP = 0.01  # of an update, as a share of the norm of the first layer's weights


def compute(spec: Spec) -> list[dict[str, float]]:
    """`correlation`: mean |corr(Δa_i, Δa_j)| over the pairs of units i < j of the second layer, over cases.

    h = f(W_1 x), a = W_2 h; weights Gaussian, of variance 1 over the layer's inputs, x standard normal, float64.
    Δa = W_2 Δh, Δh of a gradient step of W_1, 0.01 of its norm long, by the loss mean (v·f(a) - y)^2 with y and v drawn
    (`update`), or from one case to the next (`case`). `rms`: the root of mean Δa^2.
    """
    options, cases = spec.config["model"], spec.config["train"]["batch_size"]
    inputs, units = options["inputs"], options["hidden_size"]
    f = torch.relu if options["activation"] == "relu" else torch.tanh

    draw = partial(probes.draw, spec.seed)
    first = (draw("first", units, inputs) / inputs**0.5).requires_grad_()
    second, x = draw("second", units, units) / units**0.5, draw("x", cases, inputs)
    h = f(x @ first.T)
    if options["change"] == "case":
        changes = h[1:] - h[:-1]
    else:
        loss = (f(h @ second.T) @ draw("v", units) / units**0.5 - draw("y", cases)).square().mean()
        (gradient,) = torch.autograd.grad(loss, first)
        changes = f(x @ (first - STEP * first.norm() / gradient.norm() * gradient).T) - h
    summed = (changes.detach() @ second.T).numpy()
    pairs = np.corrcoef(summed.T)[np.triu_indices(units, 1)]
    return [{"correlation": float(np.abs(pairs).mean()), "rms": float(np.sqrt((summed**2).mean()))}]
