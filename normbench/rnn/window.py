"""A window of Gaussians that moves along a text while it is being written (Graves 2013, 5.2)."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from normbench.errors import BadInput
from normbench.norms import kernel
from normbench.norms.derivatives import differentiable

BOUND = 10.0  # of the logarithms: in early updates some are far larger


class Text(NamedTuple):
    """Numbers of symbols, padded: `letters` (B, U) int64; `lengths` (B,) int64; how many symbols there are."""

    letters: Tensor
    lengths: Tensor
    symbols: int

    @classmethod
    def of(cls, letters: Tensor, mask: Tensor, symbols: int) -> Text:
        """With the mask (B, U) of its letters. NormbenchError for a number of no symbol: the kernel goes by these."""
        if letters.is_cpu and letters.numel() and not 0 <= int(letters.min()) <= int(letters.max()) < symbols:
            raise BadInput(
                f"a text has the number {int(letters.max())}, or one below 0: symbols are numbered 0 to {symbols - 1}."
            )
        return cls(letters, mask.sum(1), symbols)


def weights(given: Tensor, places: Tensor, count: int) -> Tensor:
    """φ_u = Σ_k α_k exp(-β_k (κ_k - u)²), u = 0 .. count - 1: (B, count) (Graves 2013, eq. 46).

    given (B, 3 K): logarithms of α and β, and those of the steps to these places κ (B, K). Graves counts u from 1.
    """
    height, narrowness, _ = given.clamp(-BOUND, BOUND).exp().chunk(3, 1)
    away = places[:, :, None] - torch.arange(count, dtype=places.dtype, device=places.device)
    return (height[:, :, None] * (-narrowness[:, :, None] * away.square()).exp()).sum(1)


def step(given: Tensor, places: Tensor, text: Text, shift: float) -> tuple[Tensor, Tensor]:
    """w = Σ_u φ_u c_u, c_u one-hot, (B, symbols), and the next places κ = κ_before + exp(κ̂ + shift), (B, K).

    Graves 2013, eq. 46-51: given (B, 3 K) holds α̂, β̂, κ̂; α = exp(α̂), β = exp(β̂). The logarithms, κ̂ + shift among them,
    are bounded by ± `BOUND`. Not the same as: shift 0 alone is Graves'.
    """
    if kernel.by_kernel(given, places):
        result: tuple[Tensor, Tensor] = Step.apply(given, places, text, shift)
        return result
    return _step(given, places, text, shift)


def _step(given: Tensor, places: Tensor, text: Text, shift: float) -> tuple[Tensor, Tensor]:
    count = text.letters.shape[1]
    places = places + (given[:, 2 * places.shape[1] :] + shift).clamp(-BOUND, BOUND).exp()
    phi = weights(given, places, count) * (torch.arange(count, device=text.lengths.device) < text.lengths[:, None])
    return phi.new_zeros(len(phi), text.symbols).scatter_add(1, text.letters, phi), places


class Step(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, given: Tensor, places: Tensor, text: Text, shift: float) -> tuple[Tensor, Tensor]:
        inputs, text = (given, places), Text(text.letters.contiguous(), text.lengths.contiguous(), text.symbols)
        given, places = given.contiguous(), places.contiguous()
        window, after = given.new_empty(len(given), text.symbols), torch.empty_like(places)
        _call("window_forward", text, shift, given, places, text.letters, text.lengths, window, after)
        ctx.text, ctx.shift = text, shift
        ctx.save_for_backward(*inputs, given, after)
        return window, after

    @staticmethod
    def backward(ctx: Any, dwindow: Tensor, dafter: Tensor) -> tuple[Tensor | None, ...]:
        *inputs, given, after = ctx.saved_tensors
        text, shift = ctx.text, ctx.shift
        if torch.is_grad_enabled():
            by_autograd = differentiable(
                lambda given, places: _step(given, places, text, shift), inputs, (dwindow, dafter)
            )
            return *by_autograd, None, None
        dgiven, dbefore = torch.empty_like(given), torch.empty_like(after)
        arrays = (dwindow.contiguous(), dafter.contiguous(), dgiven, dbefore)
        _call("window_backward", text, shift, given, after, text.letters, text.lengths, *arrays)
        return dgiven, dbefore, None, None


def _call(name: str, text: Text, shift: float, *arrays: Tensor) -> None:
    like, places = arrays[0], arrays[1]
    scratch = like.new_empty(text.letters.shape[1])
    sizes = (len(like), places.shape[1], text.letters.shape[1], text.symbols)
    kernel.call(name, *sizes, BOUND, shift, *arrays, scratch)
