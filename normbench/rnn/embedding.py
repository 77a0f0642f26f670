"""Embedding of words, with a gradient in large pages of memory."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from normbench.norms import kernel
from normbench.norms.derivatives import differentiable
from normbench.rnn.matmul import empty


class Embedding(nn.Embedding):
    """Row i of the weight (words, features) for each index i: (*) int64 -> (*, features).

    As `nn.Embedding`; the gradient is dense, so that a word that is absent moves with its momentum, as in tf.keras.
    At batch 1 torch spends most of a step on the fresh small pages of that gradient (five times as long for 40 MB).
    Not the same as: `nn.Embedding` with padding_idx, max_norm or sparse gradients, which are not taken.
    """

    def __init__(self, words: int, features: int) -> None:
        super().__init__(words, features)

    def forward(self, indices: Tensor) -> Tensor:
        if kernel.torch_needed(indices.device.type):
            return super().forward(indices)
        rows: Tensor = Rows.apply(self.weight, indices)
        return rows


class Rows(torch.autograd.Function):
    """(weight, indices) -> the rows."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, indices: Tensor) -> Tensor:
        ctx.save_for_backward(weight, indices)
        return F.embedding(indices, weight)

    @staticmethod
    def backward(ctx: Any, d: Tensor) -> tuple[Tensor | None, None]:
        weight, indices = ctx.saved_tensors
        if torch.is_grad_enabled():
            return differentiable(lambda weight: F.embedding(indices, weight), (weight,), (d,))[0], None
        gradient = empty(weight, *weight.shape).zero_()
        return gradient.index_add_(0, indices.flatten(), d.flatten(0, -2)), None
