"""Dynamic erf (Chen, Lu, Zhu, Sun, Liu 2025)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from normbench.norms.base import Normalizer, affine, gain_and_bias, normalizer
from normbench.norms.dyt import saturated
from normbench.norms.fused import ERF, FusedSpec
from normbench.norms.sites import Site


@normalizer("derf")
class DynamicErf(Normalizer):
    """y = gain * erf(alpha x + shift) + bias, alpha and shift one number each for all features (paper, eq. 10).

    Args:
        alpha_init: 0.5 in the paper; the shift starts at 0.

    Shapes: x in the site's layout; each number by itself, the same in training and evaluation.
    Not the same as: a normalizer, since nothing is measured and no change of scale is undone; `dyt`, whose curve is
    flatter and has no shift inside.
    """

    def __init__(self, site: Site, *, alpha_init: float = 0.5) -> None:
        super().__init__(site)
        self.alpha = nn.Parameter(torch.full((1,), alpha_init))
        self.shift = nn.Parameter(torch.zeros(1))
        self.gain, self.bias = gain_and_bias([site.features], True, True, 1.0)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return affine(torch.erf(self.alpha * x + self.shift), self.gain, self.bias, self.site.feature_axis)

    def observe(self, x: Tensor) -> dict[str, Tensor]:
        """alpha, and the share of |alpha x + shift| > 2."""
        return {"alpha": self.alpha.mean(), "saturated": saturated(self.alpha * x + self.shift)}

    def fused(self) -> FusedSpec:
        return FusedSpec(ERF, gain=self.gain, bias=self.bias, alpha=self.alpha, shift=self.shift)
