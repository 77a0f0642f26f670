"""Root mean square normalization (Zhang and Sennrich 2019), whole and partial."""

from __future__ import annotations

import math

import torch.nn.functional as F
from torch import Tensor

from normbench.errors import BadInput
from normbench.norms.base import Normalizer, affine, gain_and_bias, normalizer, root
from normbench.norms.fused import RMS, FusedSpec
from normbench.norms.sites import Site


@normalizer("rms")
class RMSNorm(Normalizer):
    """y = g * x / RMS(x) (+ b), RMS(x) = sqrt(mean of x_i^2) over the features of one position (paper, eq. 4).

    Args:
        eps, eps_mode: `in` the root (authors' TensorFlow code), or `out`: RMS + eps (authors' Torch code).
        p: RMS of the first floor(p d) features alone, applied to all (pRMSNorm, section 4).
        affine, bias, gain_init: gain g; the offset b is off, as in the authors' code.

    Shapes: x in the site's layout; the same in training and evaluation, no mean is taken away.
    Errors: a `p` that leaves no feature.
    Not the same as: `nn.RMSNorm()` without eps, which takes the machine epsilon; `nn.LayerNorm` of centred data (equal
    only there).
    """

    def __init__(
        self,
        site: Site,
        *,
        eps: float = 1e-8,
        eps_mode: str = "in",
        p: float = 1.0,
        affine: bool = True,
        bias: bool = False,
        gain_init: float = 1.0,
    ) -> None:
        super().__init__(site)
        self.eps, self.eps_mode = eps, eps_mode
        self.used = math.floor(p * site.features + 1e-9)  # 0.29 * 100 is 28.999...
        if self.used < 1:
            raise BadInput(f"rms at site '{site.path}': p={p} leaves none of its {site.features} features.")
        self.gain, self.bias = gain_and_bias([site.features], affine, bias, gain_init)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        axis = self.site.feature_axis
        if self.used == self.site.features and self.eps_mode == "in":
            last = axis == x.dim() - 1
            y = F.rms_norm(x if last else x.movedim(axis, -1), (self.site.features,), self.gain, self.eps)
            y = y if self.bias is None else y + self.bias
            return y if last else y.movedim(-1, axis)
        mean_square = x.narrow(axis, 0, self.used).square().mean(axis, keepdim=True)
        return affine(x / root(mean_square, self.eps, self.eps_mode), self.gain, self.bias, axis)

    def fused(self) -> FusedSpec | None:
        whole = self.used == self.site.features and self.eps_mode == "in"
        return FusedSpec(RMS, self.eps, self.gain, self.bias) if whole else None
