"""Backward passes: bounds on derivatives inside a network (Graves 2013, 3.1), and second derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor


def clipped(x: Tensor, bound: float) -> Tensor:
    """x itself, whose derivatives are bounded by ± bound in the backward pass. NaN stays NaN."""
    result: Tensor = Clipped.apply(x, bound)
    return result


class Clipped(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, bound: float) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, float], output: Tensor) -> None:
        _, ctx.bound = inputs

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, None]:
        return dy.clamp(-ctx.bound, ctx.bound), None


def differentiable(
    function: Callable[..., Tensor | Sequence[Tensor]], inputs: Sequence[Tensor], gradients: Sequence[Tensor]
) -> list[Tensor | None]:
    """The gradients of the inputs from those of the outputs, under autograd: for a backward pass with `create_graph`.

    `function` has the values of a forward pass that autograd did not see, in operations that it does.
    """
    with torch.enable_grad():
        views = [tensor.view_as(tensor) for tensor in inputs]  # one input may have been made from another
        outputs = function(*views)
    needed = [tensor for tensor in views if tensor.requires_grad]
    derivatives = iter(torch.autograd.grad(outputs, needed, gradients, create_graph=True, allow_unused=True))
    return [next(derivatives) if tensor.requires_grad else None for tensor in views]
