"""Instance normalization (Ulyanov, Vedaldi, Lempitsky 2016)."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from normbench.errors import NormbenchError
from normbench.norms.base import Normalizer, from_channels, gain_and_bias, normalizer, to_channels
from normbench.norms.sites import Site


@normalizer("instance")
class InstanceNorm(Normalizer):
    """y = (x - mu_nc) / sqrt(var_nc + eps), moments over the positions in space of one sample's channel.

    Args:
        affine, bias, gain_init: a gain and a shift per channel; off, as in PyTorch.

    Shapes: x in the site's layout, which must have space; every time step by itself. The variance is biased; the same
    in training and evaluation (no running statistics).
    Errors: one position in space, refused at planning where the site tells its size.
    Not the same as: `nn.GroupNorm(C, C)`, whose gain is on.
    """

    def __init__(
        self, site: Site, *, eps: float = 1e-5, affine: bool = False, bias: bool = True, gain_init: float = 1.0
    ) -> None:
        super().__init__(site)
        self.eps = eps
        self.gain, self.bias = gain_and_bias([site.features], affine, bias, gain_init)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        channels = to_channels(x, self.site)
        if channels[0, 0].numel() == 1:
            raise NormbenchError(
                f"instance normalization at site '{self.site.path}' met one position in space: nothing would be left."
            )
        y = F.instance_norm(channels, weight=self.gain, bias=self.bias, eps=self.eps)
        return from_channels(y, self.site, x)
