"""Dynamic tanh (Zhu, Chen, He, LeCun, Liu 2025)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from normbench.norms.base import Normalizer, affine, gain_and_bias, normalizer
from normbench.norms.fused import TANH, FusedSpec
from normbench.norms.sites import Site


@normalizer("dyt")
class DynamicTanh(Normalizer):
    """y = gain * tanh(alpha x) + bias, alpha one number for all features.

    Args:
        alpha_init: 0.5 in the paper, except in language models.

    Shapes: x in the site's layout; each number by itself, the same in training and evaluation.
    Not the same as: a normalizer, since nothing is measured and no change of scale is undone; `DynamicTanh` of
    x-transformers, whose alpha starts at 1.
    """

    def __init__(self, site: Site, *, alpha_init: float = 0.5) -> None:
        super().__init__(site)
        self.alpha = nn.Parameter(torch.full((1,), alpha_init))
        self.gain, self.bias = gain_and_bias([site.features], True, True, 1.0)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return affine(torch.tanh(self.alpha * x), self.gain, self.bias, self.site.feature_axis)

    def fused(self) -> FusedSpec:
        return FusedSpec(TANH, gain=self.gain, bias=self.bias, alpha=self.alpha)
