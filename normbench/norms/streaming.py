"""Streaming normalization (Liao, Kawaguchi, Poggio 2016), approximate: see `Streaming`."""

from __future__ import annotations

import torch
from torch import Tensor

from normbench.norms.base import Normalizer, affine, gain_and_bias, normalizer, root
from normbench.norms.running import Averaging
from normbench.norms.sites import Site


@normalizer("streaming")
class Streaming(Normalizer, Averaging):
    """y = gain * (x - mu) / s + bias with (mu, s) = (1 - alpha) long + alpha current, per feature. **Approximate.**

    current: mean and spread (mean |x - mu|^p)^(1/p) + eps of the minibatch; long: kappa long + (1 - kappa) current
    after each training batch, started with the first one. Evaluation uses long. The gradient goes through the current
    part alone.

    What is approximate: the paper's text was not at hand. The first author's later code (liaoq/StreamingNorm on GitHub,
    June 2026, "may differ a bit in details") was read, not copied; alpha, kappa and eps are its defaults. There,
    short-term statistics average all minibatches since the last update (here an update follows each batch, so they are
    the current ones); the gradient of a statistic is 0.6 of a long-term average of such gradients and 0.4 of the
    current one; spreads have n - 1 and eps twice; evaluation mixes the last short-term statistics in; there is no
    p = 1, which is the paper's.

    Args:
        alpha: share of the current statistics. kappa: decay of the long-term ones.
        p: 1 or 2, the order of the spread; 2 is the standard deviation.

    Shapes: x in the site's layout; batch, time and space are taken together. One value per feature is served.
    """

    long_mean: Tensor
    long_deviation: Tensor
    seen: Tensor

    def __init__(
        self,
        site: Site,
        *,
        alpha: float = 0.5,
        kappa: float = 0.7,
        p: int = 2,
        eps: float = 1e-5,
        affine: bool = True,
        bias: bool = True,
        gain_init: float = 1.0,
    ) -> None:
        super().__init__(site)
        self.momentum = 1 - kappa
        self.alpha, self.kappa, self.p, self.eps = alpha, kappa, p, eps
        self.gain, self.bias = gain_and_bias([site.features], affine, bias, gain_init)
        self.over = [i for i in range(len(site.axes)) if i != site.feature_axis]
        self.register_buffer("long_mean", torch.zeros(site.features))
        self.register_buffer("long_deviation", torch.ones(site.features))
        self.register_buffer("seen", torch.tensor(0))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        axis = self.site.feature_axis
        shape = [-1 if i == axis else 1 for i in range(x.dim())]
        # copies: backward still needs them when they have moved on
        mean, deviation = self.long_mean.clone().view(shape), self.long_deviation.clone().view(shape)
        if self.training:
            now = x.mean(self.over, keepdim=True)
            centred = x - now
            if self.p == 1:
                spread = centred.abs().mean(self.over, keepdim=True) + self.eps
            else:
                spread = root(centred.square().mean(self.over, keepdim=True), self.eps, "out")
            if not self.seen:
                mean, deviation = now.detach(), spread.detach()
            if self.track:
                with torch.no_grad():
                    share = self.share()
                    self.long_mean.copy_(mean.flatten().lerp(now.flatten(), share))
                    self.long_deviation.copy_(deviation.flatten().lerp(spread.flatten(), share))
                    self.seen += 1
            mean, deviation = mean.lerp(now, self.alpha), deviation.lerp(spread, self.alpha)
        return affine((x - mean) / deviation, self.gain, self.bias, axis)
