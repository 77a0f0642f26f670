"""Properties of normalizers that an overview names, computed in float64 on data (cases, channels, height, width).

Normalizers of summed inputs are applied to the summed inputs; those of weights, and blocks, to the layer's inputs.
Differences are max |f' - f| / max |f|.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from normbench.config.spec import Spec
from normbench.norms import base
from normbench.norms.context import ForwardContext
from normbench.norms.sites import Choice, Site, declared
from normbench.train import probes
from normbench.train.probes import deviation

SCALE, EPS = 2.5, 1e-2  # EPS: large enough that its sign can be seen in the formulas
Layer = Callable[[Tensor], Tensor]
ACTIVATIONS: dict[str, Layer] = {"relu": F.relu, "tanh": torch.tanh}


def compute(spec: Spec) -> list[dict[str, float]]:
    """For every method: what its output depends on, and what it learns and stores; for some further facts.

    `others`, `others_evaluation`: case 0 when all others are replaced, in training and in evaluation.
    `others_gradient`: the gradient that case 0's output sends to the others, over that to itself. `modes`: evaluation
    against training. `scaled`, `shifted`: all inputs times 2.5; a number added to all inputs of a case. `channels`: the
    gradient that channel 0 sends to the others, over that to itself. `learned_tensors`, `learned`, `kept`: numbers of
    parameters, of their values, and of the values of statistics.
    """
    options = spec.config["model"]
    site, choice = declared(spec.config)["layer"], spec.sites.get("layer")
    shape = (spec.config["train"]["batch_size"], options["units"], *options["space"])

    draw = partial(probes.draw, spec.seed)
    x, other, shift = draw("inputs", *shape), draw("others", *shape), draw("shift", shape[0], 1, 1, 1)
    W = draw("weights", shape[1], shape[1])
    norm = None if choice is None else base.build(site, choice).double().train()
    if isinstance(norm, base.WeightNormalizer):
        norm.start(W)
    layer = partial(_apply, norm, choice, W, options["activation"])
    if norm is not None:
        for step in range(3):  # statistics of an epoch, for evaluation
            layer(draw(f"epoch {step}", *shape))
        norm.end_epoch()
        norm.forward_context = ForwardContext(update_running_stats=False)
    mixed = torch.cat([x[:1], other[1:]])
    with torch.no_grad():
        y = layer(x)
        numbers = {
            "others": deviation(layer(mixed)[:1], y[:1]),
            "scaled": deviation(layer(SCALE * x), y),
            "shifted": deviation(layer(x + shift), y),
        }
        if norm is not None:
            norm.eval()
        evaluated = layer(x)
        numbers |= {"modes": deviation(evaluated, y), "others_evaluation": deviation(layer(mixed)[:1], evaluated[:1])}
        if norm is not None:
            norm.train()
    numbers |= {"others_gradient": _spread(layer, x, 0), "channels": _spread(layer, x, 1)}
    learned = [] if norm is None else list(norm.parameters())
    state = {} if norm is None else norm.state_dict()
    values = sum(tensor.numel() for tensor in state.values() if tensor.is_floating_point())
    numbers |= {"learned_tensors": float(len(learned)), "learned": float(sum(p.numel() for p in learned))}
    numbers["kept"] = values - numbers["learned"]
    with torch.no_grad():
        numbers |= _facts_of(choice, site, norm, W, x, draw) if choice is not None and norm is not None else {}
    return [numbers]


def _apply(norm: base.Normalizer | None, choice: Choice | None, W: Tensor, activation: str, x: Tensor) -> Tensor:
    if norm is None or choice is None:
        return x
    if not isinstance(norm, base.WeightNormalizer):
        y: Tensor = norm(x)
        return y
    z = norm.summed(lambda weight, bias: torch.einsum("ui,ni...->nu...", weight, x), W, None)
    return norm.finish(ACTIVATIONS[activation](z)) if choice.kind == "block" else z


def _spread(layer: Layer, x: Tensor, axis: int) -> float:
    """Largest gradient of index 0 of the output at other indices of that axis, over that at its own."""
    x = x.clone().requires_grad_()
    y = layer(x).select(axis, 0)
    weight = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)  # sums of normalized values would be constant
    (gradient,) = torch.autograd.grad((weight * y).sum(), x)
    own_gradient, others = gradient.select(axis, 0), gradient.narrow(axis, 1, gradient.shape[axis] - 1)
    return float(others.abs().max() / own_gradient.abs().max())


def _facts_of(
    choice: Choice, site: Site, norm: base.Normalizer, W: Tensor, x: Tensor, draw: Callable[..., Tensor]
) -> dict[str, float]:
    """Facts that the overview states for one method only."""
    if choice.name == "weight":  # each unit's weights have the length g
        return {"length": float((norm(W).norm(dim=1) / norm.get_parameter("gain").abs() - 1).abs().max())}
    if choice.name == "spectral":
        largest = torch.linalg.eigvalsh(W.T @ W).max().sqrt()  # max |Wh| / |h|: the square is a Rayleigh quotient
        values = torch.linalg.svdvals(W)
        return {
            "induced": abs(float(largest / values.max()) - 1),
            "spectral": abs(float(torch.linalg.svdvals(norm(W)).max()) - 1),
            "direction": deviation(norm(W) * values.max(), W),
        }
    if choice.name == "rms":  # over the channels of each position
        length = norm(x).norm(dim=1)
        return {
            "sphere": float((length / x.shape[1] ** 0.5 - 1).abs().max()),
            "formula": deviation(x / x.square().mean(1, keepdim=True).sqrt(), norm(x)),
        }
    if choice.name in ("instance", "group"):
        parts = x.shape[1] if choice.name == "instance" else choice.options["num_groups"]
        grouped = norm(x).view(len(x), parts, -1)
        whole = {"normalized_axes": "all", "affine": False, "eps": 0.0}
        ends = {
            "as_layer": base.build(site, replace(choice, name="layer", options=whole)),
            "as_instance": base.build(site, replace(choice, name="instance", options={"eps": 1e-12})),
        }
        return {
            "mean": float(grouped.mean(2).abs().max()),
            "variance": float((grouped.var(2, correction=0) - 1).abs().max()),
        } | {key: deviation(norm(x), end.double()(x)) for key, end in ends.items()}
    if choice.name in ("batch", "layer"):
        return _formulas(choice, site, x) | (_outputs(norm, x, draw) if choice.name == "batch" else {})
    return {}


def _formulas(choice: Choice, site: Site, x: Tensor) -> dict[str, float]:
    """Deviation of the overview's formula as printed, sqrt(var - eps), and of its corrections; eps 1e-2."""
    y = base.build(site, replace(choice, options={**choice.options, "eps": EPS})).double()(x)
    over_batch = x.mean((0, 2, 3), keepdim=True)
    over = (0, 2, 3) if choice.name == "batch" else (1, 2, 3)
    mean = x.mean(over, keepdim=True)
    variance = (x - mean).square().mean(over, keepdim=True)
    about_batch = (x - over_batch).square().mean(over, keepdim=True)  # LN's variance is printed about mu_f
    printed = about_batch if choice.name == "layer" else variance
    return {
        "printed": deviation((x - mean) / (printed - EPS).sqrt(), y),
        "plus_eps": deviation((x - mean) / (printed + EPS).sqrt(), y),
        "corrected": deviation((x - mean) / (variance + EPS).sqrt(), y),
    }


def _outputs(norm: base.Normalizer, x: Tensor, draw: Callable[..., Tensor]) -> dict[str, float]:
    """Moments of the training outputs against N(beta, gamma² I), with gamma and beta drawn."""
    gain, bias = draw("gains", x.shape[1]), draw("biases", x.shape[1])
    norm.get_parameter("gain").copy_(gain)
    norm.get_parameter("bias").copy_(bias)
    y = norm(x).movedim(1, 0).flatten(1)
    covariance = torch.cov(y, correction=0)
    off_diagonal = covariance - covariance.diag().diag()
    return {
        "output_mean": float((y.mean(1) - bias).abs().max()),
        "output_variance": float((covariance.diag() / gain.square() - 1).abs().max()),
        "output_covariance": float((off_diagonal / torch.outer(gain, gain)).abs().max()),
    }
