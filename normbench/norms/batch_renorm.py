"""Batch renormalization (Ioffe 2017)."""

from __future__ import annotations

import torch
from torch import Tensor

from normbench.norms.base import Normalizer, affine, gain_and_bias, normalizer, root
from normbench.norms.running import Averaging, average
from normbench.norms.sites import Site

# (update at which the limit begins to move, at which it has arrived, where it starts), paper, section 4
R_SCHEDULE, D_SCHEDULE = (5000, 40000, 1.0), (5000, 25000, 0.0)


@normalizer("batch_renorm")
class BatchRenorm(Normalizer, Averaging):
    """y = gain * (r (x - mu_B) / s_B + d) + bias, moments over batch, space and time per feature (paper, algorithm 1).

    r = clip(s_B / s, 1/r_max, r_max) and d = clip((mu_B - mu) / s, -d_max, d_max) take no part in the gradient; mu, s
    are the running mean and standard deviation: mu <- mu + momentum (mu_B - mu) after use. Evaluation: (x - mu) / s.

    Args:
        eps, eps_mode: s_B = sqrt(var + eps) (`in`, paper) or sqrt(var) + eps (`out`, ludvb/batchrenorm).
        r_max, d_max: the last limits. Until update 5 000 they are 1 and 0, which is batch normalization; then they rise
            linearly, r_max until update 40 000, d_max until 25 000.
        warmup_frac: factor on the schedule's update counts, for runs shorter than the paper's; 0: the last limits at
            once.

    Shapes: x in the site's layout. One value per feature is served: x = mu_B then, and y = gain * d + bias.
    Not the same as: `nn.BatchNorm1d` in evaluation (standard deviations are averaged, biased).
    """

    running_mean: Tensor
    running_std: Tensor
    updates: Tensor

    def __init__(
        self,
        site: Site,
        *,
        eps: float = 1e-3,
        eps_mode: str = "in",
        momentum: float = 0.01,
        r_max: float = 3.0,
        d_max: float = 5.0,
        warmup_frac: float = 1.0,
        affine: bool = True,
        bias: bool = True,
        gain_init: float = 1.0,
    ) -> None:
        super().__init__(site)
        self.eps, self.eps_mode, self.momentum = eps, eps_mode, momentum
        self.r_max, self.d_max, self.warmup_frac = r_max, d_max, warmup_frac
        self.gain, self.bias = gain_and_bias([site.features], affine, bias, gain_init)
        self.over = [i for i in range(len(site.axes)) if i != site.feature_axis]
        self.register_buffer("running_mean", torch.zeros(site.features))
        self.register_buffer("running_std", torch.ones(site.features))
        self.register_buffer("updates", torch.tensor(0))

    def limits(self) -> tuple[float, float]:
        """r_max and d_max at this update."""
        updates, now = int(self.updates), []
        for (begin, arrive, start), end in ((R_SCHEDULE, self.r_max), (D_SCHEDULE, self.d_max)):
            first, last = begin * self.warmup_frac, arrive * self.warmup_frac
            done = 1.0 if updates >= last else max(0.0, (updates - first) / (last - first))
            now.append(start + done * (end - start))
        return now[0], now[1]

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        axis = self.site.feature_axis
        shape = [-1 if i == axis else 1 for i in range(x.dim())]
        running_mean, running_std = self.running_mean.view(shape), self.running_std.view(shape)
        if not self.training:
            return affine((x - running_mean) / running_std, self.gain, self.bias, axis)
        mean = x.mean(self.over, keepdim=True)
        centred = x - mean
        std = root(centred.square().mean(self.over, keepdim=True), self.eps, self.eps_mode)
        with torch.no_grad():
            r_max, d_max = self.limits()
            r = (std / running_std).clamp(1 / r_max, r_max)
            d = ((mean - running_mean) / running_std).clamp(-d_max, d_max)
            if self.track:
                share = self.share()
                average((self.running_mean, self.running_std), (mean.flatten(), std.flatten()), share)
                self.updates += 1
        return affine(centred / std * r + d, self.gain, self.bias, axis)
