"""Group normalization (Wu and He 2018)."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from normbench.norms.base import Normalizer, from_channels, gain_and_bias, normalizer, to_channels
from normbench.norms.sites import Site


@normalizer("group")
class GroupNorm(Normalizer):
    """y = gain * (x - mu) / sqrt(var + eps) + bias, moments over one sample's space and C/G channels (paper, eq. 7).

    Args:
        num_groups: G, must divide the features; 1 is `layer` over features and space with a gain per channel, the
            number of channels is `instance` with a gain.

    Shapes: x in the site's layout, the channels wherever it has them; every time step by itself. The variance is
    biased; the same in training and evaluation.
    Errors: refused at planning where G does not divide the features or leaves one value in a group.
    Not the same as: `nn.LayerNorm([C, H, W])` for G = 1 (its gain is per element).
    """

    def __init__(
        self,
        site: Site,
        *,
        num_groups: int = 2,
        eps: float = 1e-5,
        affine: bool = True,
        bias: bool = True,
        gain_init: float = 1.0,
    ) -> None:
        super().__init__(site)
        self.num_groups, self.eps = num_groups, eps
        self.gain, self.bias = gain_and_bias([site.features], affine, bias, gain_init)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        y = F.group_norm(to_channels(x, self.site), self.num_groups, self.gain, self.bias, self.eps)
        return from_channels(y, self.site, x)
