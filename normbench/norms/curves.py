"""How much a map from inputs to outputs looks like an S."""

from __future__ import annotations

import torch
from torch import Tensor

VALUES = 4096  # of a tensor, evenly spread
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


def _explained(curves: Tensor, y: Tensor) -> Tensor:
    """Of each row (curves, n) the share of y's variance that its best multiple and a constant explain."""
    centred, target = curves - curves.mean(1, keepdim=True), y - y.mean()
    return (centred @ target).square() / (centred.square().sum(1) * target.square().sum())
