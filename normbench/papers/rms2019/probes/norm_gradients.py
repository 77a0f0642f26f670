"""Zhang and Sennrich 2019, section 4.2: gradients of one normalized layer whose inputs or weights are scaled."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from normbench.config.spec import Spec
from normbench.norms import base
from normbench.norms.sites import declared
from normbench.train import probes

DELTA = 2.5


def compute(spec: Spec) -> list[dict[str, float]]:
    """Gradients of L = mean (tanh(v) - target)² with v = g N(W x) + b, in float64, as deviations from what is claimed.

    PARAMETER_by_inputs, with x' = δx: of dL/dPARAMETER from that before. PARAMETER_by_weights, with W' = δW: the same
    for gain and shift; of δ dL/dW from dL/dW. eq9: of dL/dW from the paper's eq. 9, summed over cases. zero_mean: of
    N(a) from (a - mean) / std for summed inputs a whose mean is 0 in each case.
    """
    options, draw = spec.config["model"], partial(probes.draw, spec.seed)
    units, inputs, cases = options["units"], options["inputs"], spec.config["train"]["batch_size"]
    W, x, target = draw("weights", units, inputs), draw("inputs", cases, inputs), draw("target", cases, units)
    gain, shift = draw("gain", units), draw("shift", units)
    choice = spec.sites.get("layer")
    norm = base.build(declared(spec.config)["layer"], choice).double() if choice else torch.nn.Identity()

    def gradients(W: Tensor, x: Tensor) -> dict[str, Tensor]:
        leaves = {"W": W.clone(), "gain": gain.clone(), "shift": shift.clone()}
        for leaf in leaves.values():
            leaf.requires_grad_()
        v = leaves["gain"] * norm(x @ leaves["W"].T) + leaves["shift"]
        loss = (torch.tanh(v) - target).square().mean()
        return dict(zip([*leaves, "v"], torch.autograd.grad(loss, [*leaves.values(), v]), strict=True))

    before, scaled_inputs, scaled_weights = gradients(W, x), gradients(W, DELTA * x), gradients(DELTA * W, x)
    scaled_weights["W"] = DELTA * scaled_weights["W"]
    numbers = {}
    for name in ("W", "gain", "shift"):
        numbers[f"{name}_by_inputs"] = probes.deviation(scaled_inputs[name], before[name])
        numbers[f"{name}_by_weights"] = probes.deviation(scaled_weights[name], before[name])
    summed = x @ W.T
    centred = summed - summed.mean(1, keepdim=True)
    numbers["eq9"] = probes.deviation(_eq9(summed, x, gain * before["v"]), before["W"])
    numbers["zero_mean"] = probes.deviation(norm(centred), F.layer_norm(centred, [units], eps=0.0))
    return [numbers]


def _eq9(summed: Tensor, x: Tensor, weighted: Tensor) -> Tensor:
    """dL/dW: the sum over cases of (R (g ⊙ dL/dv)) xᵀ, R = (I - a aᵀ / (n RMS(a)²)) / RMS(a), which is symmetric."""
    rms = summed.square().mean(1).sqrt()[:, None, None]
    outer = summed[:, :, None] * summed[:, None, :]
    R = (torch.eye(summed.shape[1]).double() - outer / (summed.shape[1] * rms**2)) / rms
    return torch.einsum("nij,nj,nk->ik", R, weighted, x)
