"""Filter response normalization with its thresholded linear unit (Singh and Krishnan 2019)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from normbench.norms.base import Normalizer, affine, gain_and_bias, normalizer
from normbench.norms.sites import Site


@normalizer("filter_response")
class FilterResponseNorm(Normalizer):
    """y = max(gain * x / sqrt(mean of x^2 + eps) + bias, tau), the mean over the space of one sample's channel.

    The maximum is the thresholded linear unit, which replaces the model's non-linearity. tau is learned per channel,
    from 0: at first it is ReLU.

    Shapes: x in the site's layout, with space; every time step by itself. The same in training and evaluation; no mean
    is taken away. Errors: refused at planning without a non-linearity to replace, and with one position in space.
    Not the same as: the paper's layer for one position (dense layers), whose eps is learned; timm's
    `FilterResponseNormTlu2d` with its eps of 1e-5; instance normalization, which takes the mean away.
    """

    def __init__(self, site: Site, *, eps: float = 1e-6) -> None:
        super().__init__(site)
        self.eps = eps
        self.gain, self.bias = gain_and_bias([site.features], True, True, 1.0)
        self.tau = nn.Parameter(torch.zeros(site.features))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        space, axis = [i for i, name in enumerate(self.site.axes) if name == "space"], self.site.feature_axis
        scale = (x.square().mean(space, keepdim=True) + self.eps).rsqrt()
        y = affine(x * scale, self.gain, self.bias, axis)
        return torch.maximum(y, self.tau.view([-1 if i == axis else 1 for i in range(x.dim())]))
