"""How much a map from inputs to outputs looks like an S."""

from __future__ import annotations

import torch
from torch import Tensor

VALUES = 4096  # of a tensor, evenly spread
PLACES = {"half": 0.5, "1": 1.0, "2": 2.0, "4": 4.0, "8": 8.0}  # of a map, in deviations of its inputs
SLOPES = (-2, 1.5, 60)  # logarithms to base 10 of the first and the last, over the deviation of x; how many


@torch.no_grad()
def beyond_line(x: Tensor, y: Tensor) -> Tensor:
    """The share of y's variance that the best a tanh(b x) + c explains beyond the best line a x + c."""
    stride = -(-x.numel() // VALUES)
    x, y = x.flatten()[::stride].double(), y.flatten()[::stride].double()
    line = _explained(x[None], y)
    slopes = torch.logspace(*SLOPES, dtype=x.dtype, device=x.device) / x.std()
    best = _explained(torch.tanh(slopes[:, None] * x), y).max()
    # the flattest curve is a line up to rounding; where x or y does not vary there is nothing to explain
    return (best - line[0]).clamp(min=0).nan_to_num(0)


@torch.no_grad()
def in_out(x: Tensor, y: Tensor) -> dict[str, Tensor]:
    """The mean of y around half, 1, 2, 4 and 8 deviations of x from its mean, both sides as one: `out_half`, ...

    Around is from 1/sqrt(2) to sqrt(2) times as far; where no value lies it is left out. A line's rise as the places.
    """
    centred = x - x.mean()
    distance, outwards = centred.abs() / x.std(), y * centred.sign()
    means = {}
    for name, place in PLACES.items():
        if (around := (distance >= place / 2**0.5) & (distance < place * 2**0.5)).any():
            means[f"out_{name}"] = outwards[around].mean()
    return means


def _explained(curves: Tensor, y: Tensor) -> Tensor:
    """Of each row (curves, n) the share of y's variance that its best multiple and a constant explain."""
    centred, target = curves - curves.mean(1, keepdim=True), y - y.mean()
    return (centred @ target).square() / (centred.square().sum(1) * target.square().sum())
