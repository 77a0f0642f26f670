"""BLN 2022, Fig. 2: the weights of the two normalizations over the size of the mini-batch, measured in float64."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from normbench.config.spec import Spec
from normbench.core.streams import stream
from normbench.errors import BadInput
from normbench.norms import base
from normbench.norms.context import ForwardContext
from normbench.norms.sites import declared
from normbench.train import probes


@torch.no_grad()
def compute(spec: Spec) -> list[dict[str, float]]:
    """Per mini-batch size m the weights, found by least squares in the layer's output times sqrt(d).

    They are found by Gram-Schmidt, since LAPACK's solver does not round alike in every call.

    `batch`, `feature`: y sqrt(d) = batch x_B + feature x_F, exactly, from m = 2 on; at m = 1, where x_B is zero and its
    weight has no effect, `batch` is the formula's. `residual`: the part of y outside of the two. `formula`: largest
    difference from 1 - (1/m + eps) and 1/m - eps. `smallest`, `largest`: of all weights; `least_growth`: of the batch's
    weight from m to m + 1. `single`: |y - 0.9999 LN(x)/sqrt(d)| / |y| at m = 1, LN with the layer's own eps.
    Further the numbers of `_configurations`.
    """
    site, choice = declared(spec.config)["layer"], spec.sites.get("layer")
    if choice is None or choice.name != "batch_layer":
        raise BadInput("bln_weights examines batch_layer alone: norm=batch_layer.")
    options, d = choice.options, site.features
    norm = base.build(site, choice).double().train()
    norm.forward_context = ForwardContext(update_running_stats=False)
    code = options["mode"] == "code"
    eps_b = options["eps_v"] or (1e-3 if code else 1e-4)
    eps_f = eps_b if code else 1e-12  # the paper's feature deviation has no eps; the layer adds a small one
    records, residuals, differences = [], [], []
    for m in range(1, spec.epochs + 1):
        x = probes.draw(spec.seed, m, m, d)
        y = norm(x) * math.sqrt(d)
        batch, feature = _normalized(x, 0, eps_b), _normalized(x, 1, eps_f)
        expected = 1 - (1 / m + options["eps_w"]), 1 / m - options["eps_w"]
        if m == 1:
            fitted = expected[0], float((y * feature).sum() / feature.square().sum())
        else:
            share = _along(feature, batch)
            feature_weight = _along(y, rest := feature - share * batch)
            fitted = float(_along(y - feature_weight * rest, batch) - feature_weight * share), float(feature_weight)
        residuals.append(float((y - fitted[0] * batch - fitted[1] * feature).norm() / y.norm()))
        differences += [abs(a - b) for a, b in zip(fitted, expected, strict=True)]
        records.append({"epoch": m, "step": m, "batch": fitted[0], "feature": fitted[1]})
    x = probes.draw(spec.seed, 1, 1, d)
    y = norm(x)
    single = (1 - options["eps_w"]) * F.layer_norm(x, [d], eps=eps_f) / math.sqrt(d)
    weights = [record[key] for record in records for key in ("batch", "feature")]
    growth = [b["batch"] - a["batch"] for a, b in itertools.pairwise(records)]
    numbers = {  # by numpy, whose extremes are NaN where one number is
        "residual": float(np.max(residuals)),
        "formula": float(np.max(differences)),
        "smallest": float(np.min(weights)),
        "largest": float(np.max(weights)),
        "least_growth": float(np.min(growth)),
        "single": float((y - single).norm() / y.norm()),
        **_configurations(spec, site, choice),
    }
    return [numbers, *records]


@torch.enable_grad()
def _configurations(spec: Spec, site: base.Site, choice: base.Choice) -> dict[str, float]:
    """Outputs of the 16 configurations of inference on the same batches, in training and in evaluation.

    `training_spread`: largest difference of outputs and of gradients over three training steps; `evaluation_spread`:
    the smallest between any two configurations afterwards. `others_CONFIGURATION`: by how much, relative to the largest
    output, an example's output changes when the others of its batch are replaced, after an epoch of batches of 8;
    `finite_CONFIGURATION`: the share of outputs that are finite after an epoch of batches of 1.
    """

    def built(letters: str) -> base.Normalizer:
        return base.build(site, replace(choice, options={**choice.options, "configuration": letters})).double().train()

    def batch(step: int, m: int = 8) -> Tensor:
        return torch.from_numpy(stream(spec.seed, "configurations", step).standard_normal((m, site.features)))

    def after_an_epoch(letters: str, m: int) -> base.Normalizer:
        norm = built(letters)
        norm.begin_epoch()
        for step in range(3):
            norm(batch(step, m))
        norm.end_epoch()
        return norm.eval()

    trained, evaluated, more = [], [], {}
    for letters in map("".join, itertools.product("TF", repeat=4)):
        norm = built(letters)
        results = []
        for step in range(3):
            x = (batch(step) * (1 + step) + step).requires_grad_()
            y = norm(x)
            (gradient,) = torch.autograd.grad(y.square().mul(torch.arange(1.0, site.features + 1)).sum(), x)
            results += [y.detach().flatten(), gradient.flatten()]
        trained.append(torch.cat(results))
        norm.eval().forward_context = ForwardContext(update_running_stats=False)
        with torch.no_grad():
            evaluated.append(norm(batch(3)).flatten())
            norm, others = after_an_epoch(letters, 8), torch.cat([batch(3)[:1], batch(4)[1:]])
            before, after = norm(batch(3)), norm(others)
            more[f"others_{letters}"] = float((after[0] - before[0]).abs().max() / before.abs().max())
            more[f"finite_{letters}"] = float(after_an_epoch(letters, 1)(batch(3, 1)).isfinite().double().mean())
    return {
        **more,
        "training_spread": float(np.max([float((other - trained[0]).abs().max()) for other in trained])),
        "evaluation_spread": float(
            np.min([float((a - b).abs().max()) for a, b in itertools.combinations(evaluated, 2)])
        ),
    }


def _along(y: Tensor, x: Tensor) -> Tensor:
    """The coefficient of x in the projection of y onto it."""
    return (y * x).sum() / x.square().sum()


def _normalized(x: Tensor, axis: int, eps: float) -> Tensor:
    centred = x - x.mean(axis, keepdim=True)
    return centred / (centred.square().mean(axis, keepdim=True) + eps).sqrt()
