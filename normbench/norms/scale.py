"""ScaleNorm (Nguyen and Salazar 2019)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from normbench.norms.base import Normalizer, normalizer
from normbench.norms.fused import RMS_MIN, FusedSpec
from normbench.norms.sites import Site


@normalizer("scale")
class ScaleNorm(Normalizer):
    """y = gain * x / max(||x||, eps), ||x|| over the d features of one position, one gain from sqrt(d).

    Args:
        eps: the smallest norm that is divided by, as in the authors' code.

    Shapes: x in the site's layout; the same in training and evaluation, no mean is taken away, no shift.
    Not the same as: `rms`, which begins as the same function and has a gain per feature; FixNorm, the same paper's norm
    of word vectors.
    """

    def __init__(self, site: Site, *, eps: float = 1e-5) -> None:
        super().__init__(site)
        self.eps = eps
        self.gain = nn.Parameter(torch.tensor(math.sqrt(site.features)))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        square = x.square().sum(self.site.feature_axis, keepdim=True)
        return x * (self.gain / square.clamp(min=self.eps**2).sqrt())  # the root of zeros has no second derivative

    def fused(self) -> FusedSpec:
        features = self.site.features
        root = math.sqrt(features)  # ||x|| is the root times the root mean square
        return FusedSpec(RMS_MIN, self.eps / root, (self.gain / root).expand(features))
