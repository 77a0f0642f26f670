"""Selective attention: reading an image and writing onto a canvas through Gaussian filters (Gregor et al. 2015)."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from normbench.norms import kernel
from normbench.norms.derivatives import differentiable

BOUND = 10.0  # of the logarithms: in early updates some are far larger


class Window(NamedTuple):
    """N x N filters over an image: `rows` and `columns` (B, N, side), each filter of sum 1; `intensity` (B, 1, 1)."""

    rows: Tensor
    columns: Tensor
    intensity: Tensor


def window(given: Tensor, n: int, side: int) -> Window:
    """Of (g_y, g_x, log δ, log σ², log γ), each (B,) of given (B, 5); Gregor et al. 2015, eq. 19-26.

        centre = (g + 1) / 2 · side;  stride = (side - 1) / (N - 1) · δ;  mean_i = centre + (i - N/2 + 1/2) · stride
        F_i[a] = exp(-(a - mean_i)² / 2σ²) / (sum over the pixels a of these + 1e-4),  i, a counted from 0

    as code of jbornschein/draw; Gregor et al.'s eq. 22 has side + 1 in the centre. The logarithms are bounded by
    ± `BOUND`.
    """
    variance, intensity = given[:, 3:].clamp(-BOUND, BOUND).exp().unbind(1)
    distance = torch.arange(side, dtype=given.dtype, device=given.device) - means(given, n, side)[..., None]
    values = (-0.5 * distance.square() / variance[:, None, None, None]).exp()
    rows, columns = (values / (values.sum(-1, keepdim=True) + 1e-4)).unbind(1)
    return Window(rows, columns, intensity[:, None, None])


def means(given: Tensor, n: int, side: int) -> Tensor:
    """Where the filters of `window` lie, in pixels: (B, 2, N), rows, then columns."""
    centres = (given[:, :2] + 1) / 2 * side
    offsets = torch.arange(n, dtype=given.dtype, device=given.device) - n / 2 + 0.5
    stride = (side - 1) / max(n - 1, 1) * given[:, 2].clamp(-BOUND, BOUND).exp()
    return centres[:, :, None] + offsets * stride[:, None, None]


def read(image: Tensor, canvas: Tensor, given: Tensor, n: int) -> Tensor:
    """[γ F_y x F_xᵀ, γ F_y x̂ F_xᵀ], x̂ = x - σ(canvas) the error image, (B, 2 N²) (Gregor et al. 2015, eq. 3, 27).

    Shapes: image, canvas (B, side²), given (B, 5), see `window`. The image has no gradient.
    """
    if kernel.by_kernel(image, canvas, given):
        result: Tensor = Read.apply(image, canvas, given, n)
        return result
    return _read(image, canvas, given, n)


def _read(image: Tensor, canvas: Tensor, given: Tensor, n: int) -> Tensor:
    side = _side(canvas)
    w = window(given, n, side)
    images = torch.stack([image, image - canvas.sigmoid()], 1).view(len(image), 2, side, side)
    patches = w.rows[:, None] @ images @ w.columns[:, None].mT
    return (w.intensity[:, None] * patches).flatten(1)


def write(canvas: Tensor, patch: Tensor, given: Tensor, n: int) -> Tensor:
    """canvas + F_yᵀ w F_x / γ (Gregor et al. 2015, eq. 8, 29).

    Shapes: canvas (B, side²), patch w (B, N²), given (B, 5), see `window`.
    """
    if kernel.by_kernel(canvas, patch, given):
        result: Tensor = Write.apply(canvas, patch, given, n)
        return result
    return _write(canvas, patch, given, n)


def _write(canvas: Tensor, patch: Tensor, given: Tensor, n: int) -> Tensor:
    w = window(given, n, _side(canvas))
    return canvas + (w.rows.mT @ (patch.view(-1, n, n) / w.intensity) @ w.columns).flatten(1)


def _side(image: Tensor) -> int:
    return round(image.shape[1] ** 0.5)


def _call(name: str, n: int, *arrays: Tensor) -> None:
    """The kernel's function of this name, for images like the first array; with the scratch that the largest needs."""
    like = arrays[0]
    side = _side(like)
    scratch = like.new_empty(8 * n * side + side * side + 2 * n * n)
    kernel.call(name, len(like), side, n, BOUND, *arrays, scratch)


class Read(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, image: Tensor, canvas: Tensor, given: Tensor, n: int) -> Tensor:
        contiguous = [tensor.contiguous() for tensor in (image, canvas, given)]
        out = canvas.new_empty(len(canvas), 2 * n * n)
        _call("read_forward", n, *contiguous, out)
        ctx.n = n
        ctx.save_for_backward(image, canvas, given, *contiguous, out)
        return out

    @staticmethod
    def backward(ctx: Any, dout: Tensor) -> tuple[Tensor | None, ...]:
        *inputs, image, canvas, given, out = ctx.saved_tensors
        if torch.is_grad_enabled():
            return *differentiable(partial(_read, n=ctx.n), inputs, (dout,)), None
        dcanvas, dgiven = torch.empty_like(canvas), torch.empty_like(given)
        _call("read_backward", ctx.n, image, canvas, given, out, dout.contiguous(), dcanvas, dgiven)
        return None, dcanvas, dgiven, None


class Write(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, canvas: Tensor, patch: Tensor, given: Tensor, n: int) -> Tensor:
        contiguous = [tensor.contiguous() for tensor in (canvas, patch, given)]
        out = torch.empty_like(contiguous[0])
        _call("write_forward", n, *contiguous, out)
        ctx.n = n
        ctx.save_for_backward(canvas, patch, given, *contiguous[1:])
        return out

    @staticmethod
    def backward(ctx: Any, dout: Tensor) -> tuple[Tensor | None, ...]:
        *inputs, patch, given = ctx.saved_tensors
        if torch.is_grad_enabled():
            return *differentiable(partial(_write, n=ctx.n), inputs, (dout,)), None
        dpatch, dgiven = torch.empty_like(patch), torch.empty_like(given)
        dout = dout.contiguous()
        # the first array has the size of the images
        _call("write_backward", ctx.n, dout, patch, given, dpatch, dgiven)
        return dout, dpatch, dgiven, None
