"""The loss of a softmax over many words, a block of rows at a time: the probabilities of all rows are never held."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from normbench.norms.derivatives import differentiable
from normbench.rnn.matmul import empty

ROWS = 512  # at once
FLOOR = 1e-8  # beside a probability under the logarithm, as the codes of skip-thoughts and of the attentive reader


def nll(h: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
    """-log(p + FLOOR) of each row (N,), p of its target by softmax(W h + b), h (N, H), W (words, H); no gradient."""
    with torch.no_grad():
        blocks = zip(h.split(ROWS), targets.split(ROWS), strict=True)
        logits = ((F.linear(rows, weight, bias), target) for rows, target in blocks)
        return torch.cat([floored(-F.cross_entropy(row, target, reduction="none")) for row, target in logits])


def total(h: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
    """The sum of `nll` over the rows, with its gradients, which are made on the way."""
    result: Tensor = Total.apply(h, weight, bias, targets)
    return result


def floored(log_p: Tensor) -> Tensor:
    return -(log_p.exp() + FLOOR).log()


class Total(torch.autograd.Function):
    """Σ -log(p + FLOOR); of a row's logits the gradient is p_y / (p_y + FLOOR) (p - 1_y)."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
        sums = h.new_zeros((), dtype=torch.float64)
        dh, dweight, dbias = torch.empty_like(h), empty(weight, *weight.shape).zero_(), torch.zeros_like(bias)
        memory = h.new_empty(min(ROWS, len(h)), len(weight))
        for start in range(0, len(h), ROWS):
            rows, target = h[start : start + ROWS], targets[start : start + ROWS, None]
            p = torch.addmm(bias, rows, weight.T, out=memory[: len(rows)])
            p = torch.softmax(p, 1, out=p)
            p_target = p.gather(1, target)
            sums -= (p_target + FLOOR).log().sum(dtype=torch.float64)
            p.scatter_add_(1, target, torch.full_like(p_target, -1))
            p.mul_(p_target / (p_target + FLOOR))
            torch.mm(p, weight, out=dh[start : start + ROWS])
            dweight.addmm_(p.T, rows)
            dbias += p.sum(0)
        ctx.save_for_backward(h, weight, bias, targets, dh, dweight, dbias)
        return sums.to(h)

    @staticmethod
    def backward(ctx: Any, d: Tensor) -> tuple[Tensor | None, ...]:
        *inputs, targets, dh, dweight, dbias = ctx.saved_tensors
        if torch.is_grad_enabled():
            return *differentiable(lambda h, weight, bias: _total(h, weight, bias, targets), inputs, (d,)), None
        return dh * d, dweight * d, dbias * d, None


def _total(h: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
    return floored(-F.cross_entropy(F.linear(h, weight, bias), targets, reduction="none")).sum()
