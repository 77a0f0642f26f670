"""LN 2016, Table 1: invariances of a normalized layer, computed in float64.

Each number is max |f' - f| / max |f| over all cases and units, f the layer's output before gain, bias and
non-linearity, with batch statistics where the method has them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from normbench.config.spec import Spec
from normbench.norms import base
from normbench.norms.context import ForwardContext
from normbench.norms.sites import declared
from normbench.train import probes

DELTA = 2.5
Layer = Callable[..., Tensor]  # of W (units, inputs), x (cases, inputs) and what is added to W x


@torch.no_grad()
def compute(spec: Spec) -> list[dict[str, float]]:
    """The six columns of Table 1, and further invariances that the papers mention.

    W_rescale W' = δW; W_recenter W' = W + 1γᵀ; w_vector_rescale wᵢ' = δwᵢ for one unit; data_rescale x' = δx;
    data_recenter x' = x + c; case_rescale xₙ' = δxₙ for one case; case_recenter xₙ' = xₙ + s·1 for one case (LN 7);
    summed_recenter aₙ' = aₙ + s·1 for its summed inputs a = W x, whose re-scaling is case_rescale;
    affine: in evaluation, f(t x₁ + (1-t) x₂) against t f(x₁) + (1-t) f(x₂), equal where the method folds into fixed
    weights (LN 4).
    """
    options = spec.config["model"]
    draw, inputs = partial(probes.draw, spec.seed), options["inputs"]
    W, x = draw("weights", options["units"], inputs), draw("inputs", spec.config["train"]["batch_size"], inputs)
    gamma, c, s = draw("gamma", inputs), draw("c", inputs), draw("s", 1)
    layer, evaluated = _layers(spec, W, x)
    one_unit, one_case = torch.ones(len(W), 1).double(), torch.ones(len(x), 1).double()
    one_unit[0] = one_case[0] = DELTA
    shift = torch.zeros(len(x), 1).double()
    shift[0] = s
    before = layer(W, x)
    numbers = {
        "W_rescale": layer(DELTA * W, x),
        "W_recenter": layer(W + gamma, x),
        "w_vector_rescale": layer(one_unit * W, x),
        "data_rescale": layer(W, DELTA * x),
        "data_recenter": layer(W, x + c),
        "case_rescale": layer(W, one_case * x),
        "case_recenter": layer(W, x + shift),
        "summed_recenter": layer(W, x, shift),
    }
    deviations = {key: probes.deviation(after, before) for key, after in numbers.items()}
    first, second, t = x[:1], x[1:2], 0.3
    mixed = t * evaluated(W, first) + (1 - t) * evaluated(W, second)
    return [deviations | {"affine": probes.deviation(evaluated(W, t * first + (1 - t) * second), mixed)}]


def _layers(spec: Spec, W: Tensor, x: Tensor) -> tuple[Layer, Layer]:
    """The layer in training mode, and in evaluation mode after its normalizer has seen `W` and `x`."""
    site, choice = declared(spec.config)["layer"], spec.sites.get("layer")
    if choice is None:
        return (lambda W, x, also=0.0: x @ W.T + also), (lambda W, x: x @ W.T)
    on_inputs = spec.config["model"]["place"] == "inputs"
    if on_inputs:
        site = replace(site, features=W.shape[1])

    def apply(norm: base.Normalizer, W: Tensor, x: Tensor, also: Tensor | float = 0.0) -> Tensor:
        if choice.kind == "weight":
            return x @ norm(W).T + also
        return norm(x) @ W.T + also if on_inputs else norm(x @ W.T + also)

    def fresh() -> base.Normalizer:
        norm = base.build(site, choice).double().train()
        if isinstance(norm, base.WeightNormalizer):
            norm.start(W)  # its gain stays that of the weights before the change
        return norm

    fitted = fresh()
    apply(fitted, W, x)
    fitted.eval().forward_context = ForwardContext(update_running_stats=False)
    return (lambda W, x, also=0.0: apply(fresh(), W, x, also)), (lambda W, x: apply(fitted, W, x))
