"""Batch normalization of every position plus layer normalization, weighted, in one pass of the kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from normbench.norms import kernel
from normbench.norms.derivatives import differentiable

Definition = Callable[[Tensor, Tensor, Tensor], Tensor]


class Blend(torch.autograd.Function):
    """(x, gain, bias) -> y = gain (w_B x_B + w_F x_F) + bias, and the moments of x (m, *positions, d).

    x_B = (x - mu_B) / sqrt(v_B + eps_B) over the m samples, x_F the same over the d features. The moments have no
    gradients: mu_B, v_B (positions d), and mu_F, 1 / sqrt(v_F + eps_F) (m, *positions, 1). `definition` is y in torch's
    operations, for a backward pass with `create_graph`.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        gain: Tensor,
        bias: Tensor,
        weights: tuple[float, float],
        eps: tuple[float, float],
        definition: Definition,
    ) -> tuple[Tensor, ...]:
        own, y = x.contiguous(), torch.empty_like(x, memory_format=torch.contiguous_format)
        mean, variance, rstd = x.new_empty(3, x[0].numel())
        mean_f, rstd_f = x.new_empty(2, *x.shape[:-1], 1)
        ctx.sizes = len(x), x[0].numel() // x.shape[-1], x.shape[-1]
        ctx.weights, ctx.definition = weights, definition
        arrays = (own, gain.contiguous(), bias.contiguous(), mean, variance, rstd, mean_f, rstd_f, y)
        kernel.call("blend_forward", *ctx.sizes, *weights, *eps, *arrays)
        ctx.save_for_backward(x, gain, bias, mean, rstd, mean_f, rstd_f)
        ctx.mark_non_differentiable(mean, variance, mean_f, rstd_f)
        return y, mean, variance, mean_f, rstd_f

    @staticmethod
    def backward(ctx: Any, dy: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        x, gain, bias, *moments = ctx.saved_tensors
        if torch.is_grad_enabled():
            return *differentiable(ctx.definition, (x, gain, bias), (dy,)), None, None, None
        dx, (dgain, dbias) = torch.empty_like(dy, memory_format=torch.contiguous_format), gain.new_empty(2, len(gain))
        scratch = x.new_empty(2, moments[0].numel())
        given = (x.contiguous(), gain.contiguous(), *moments, dy.contiguous())
        kernel.call("blend_backward", *ctx.sizes, *ctx.weights, *given, dx, dgain, dbias, scratch)
        return dx, dgain, dbias, None, None, None
