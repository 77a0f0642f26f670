"""Instance normalization (Ulyanov, Vedaldi, Lempitsky 2016)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from normbench.errors import BadInput
from normbench.norms.base import Normalizer, from_channels, gain_and_bias, normalizer, to_channels
from normbench.norms.sites import Site


@normalizer("instance")
class InstanceNorm(Normalizer):
    """y = (x - mu_nc) / sqrt(var_nc + eps), moments over the positions in space of one sample's channel.

    Args:
        affine, bias, gain_init: a gain and a shift per channel; off, as in PyTorch.
        track_running_stats: evaluation uses running averages of mu and of the n/(n - 1) variance, of all samples (and
            time steps) together: r <- (1 - momentum) r + momentum mean(batch). Otherwise it is the function of
            training.

    Shapes: x in the site's layout, which must have space; every time step by itself. The variance is biased.
    Errors: one position in space, refused at planning where the site tells its size.
    Not the same as: `nn.GroupNorm(C, C)`, whose gain is on.
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(
        self,
        site: Site,
        *,
        eps: float = 1e-5,
        affine: bool = False,
        bias: bool = True,
        gain_init: float = 1.0,
        track_running_stats: bool = False,
        momentum: float = 0.1,
    ) -> None:
        super().__init__(site)
        self.eps, self.running, self.momentum = eps, track_running_stats, momentum
        if track_running_stats:
            self.register_buffer("running_mean", torch.zeros(site.features))
            self.register_buffer("running_var", torch.ones(site.features))
        self.gain, self.bias = gain_and_bias([site.features], affine, bias, gain_init)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        channels = to_channels(x, self.site)
        by_sample = self.training or not self.running
        if by_sample and channels[0, 0].numel() == 1:
            raise BadInput(
                f"instance normalization at site '{self.site.path}' met one position in space: nothing would be left."
            )
        averaged = self.running and (self.track or not by_sample)  # training without tracking leaves the averages alone
        mean, variance = (self.running_mean, self.running_var) if averaged else (None, None)
        y = F.instance_norm(channels, mean, variance, self.gain, self.bias, by_sample, self.momentum, self.eps)
        return from_channels(y, self.site, x)
