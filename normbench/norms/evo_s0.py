"""EvoNorm-S0, a normalizer and a non-linearity in one (Liu et al. 2020)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from normbench.norms.base import Normalizer, affine, from_channels, gain_and_bias, normalizer, root, to_channels
from normbench.norms.sites import Site


@normalizer("evo_s0")
class EvoNormS0(Normalizer):
    """y = gain * x sigmoid(v x) / sqrt(var + eps) + bias, var over one sample's space and C/G channels.

    It replaces the model's non-linearity: with v = 1, as at first, x sigmoid(v x) is SiLU. v is learned per channel.

    Args:
        num_groups: G, must divide the features.

    Shapes: x in the site's layout, with space; each time step by itself. Its variance is biased, about the mean; x is
    not centred. The same in training and evaluation.
    Errors: refused at planning where G does not divide the features, and without a non-linearity to replace.
    Not the same as: `group` and then SiLU, where x is centred and the sigmoid sees the normalized x; EvoNorm-B0, which
    has batch statistics.
    """

    def __init__(self, site: Site, *, num_groups: int = 2, eps: float = 1e-5) -> None:
        super().__init__(site)
        self.num_groups, self.eps = num_groups, eps
        self.gain, self.bias = gain_and_bias([site.features], True, True, 1.0)
        self.v = nn.Parameter(torch.ones(site.features))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        channels, axis = to_channels(x, self.site), self.site.feature_axis
        groups = channels.reshape(len(channels), self.num_groups, -1)
        std = root(groups.var(2, correction=0, keepdim=True), self.eps).expand_as(groups).reshape(channels.shape)
        silu = x * torch.sigmoid(affine(x, self.v, None, axis))
        return affine(silu / from_channels(std, self.site, x), self.gain, self.bias, axis)
