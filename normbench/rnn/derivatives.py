"""Bounds on derivatives as they go back, inside a network and not on its gradient (Graves 2013, 3.1)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def clipped(x: Tensor, bound: float) -> Tensor:
    """x itself, whose derivatives are kept within ± bound on their way back. NaN stays."""
    found: Tensor = Clipped.apply(x, bound)
    return found


class Clipped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, bound: float) -> Tensor:
        ctx.bound = bound
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, None]:
        return dy.clamp(-ctx.bound, ctx.bound), None
