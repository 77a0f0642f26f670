"""Power normalization (Shen, Yao, Gholami, Mahoney, Keutzer 2020)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from normbench.norms.base import Normalizer, affine, gain_and_bias, normalizer
from normbench.norms.running import Averaging, average
from normbench.norms.sites import Site


@normalizer("power")
class PowerNorm(Normalizer, Averaging):
    """y = gain * z + bias, z = x / sqrt(s + eps): s is a mean square over batch, time and space, per feature.

    Until update `warmup_updates`, s is the batch's m = mean x^2, with its exact gradient (PN-V, algorithm 1). After it,
    s is the running r of the updates before, r <- alpha_fwd r + (1 - alpha_fwd) m (PN, algorithm 2), and the gradient
    by x is approximate: (g - nu z) / sqrt(r + eps), g that by z; then nu <- nu + (1 - alpha_bkd) mean((g - nu z) z), in
    the warm-up too. Evaluation: s = r. With more `warmup_updates` than a run has it is PN-V.

    Args:
        form: `paper`, as above; `code`, as the authors' mask_powernorm.py (sIncerass/powernorm) differs from it:
            1. the gradient is divided by sqrt(m + eps), after the warm-up too, where z was divided by sqrt(r + eps);
            2. in the warm-up it is g - nu z as well, and so not that of PN-V;
            3. before update `warmup_updates`, number t, r moves twice: by (m - r) / t, then as above.
            Its `ema_gz` is nu / (1 - alpha_bkd): the difference of their issue 3 is none.
        group_scaling: x is first divided by sqrt(mean x^2 + eps) of its position in each of `num_groups` groups of
            features: always in the code, in no algorithm of the paper, in its appendix (issue 8). Without it training
            may diverge (issues 2, 9). Their scripts have a group per attention head, and not the class's warm-up of
            10 000 but that of the learning rate (8 000 on IWSLT14), and 1 000 after the last layer.

    Shapes: x in the site's layout with the batch first, mask (batch, time): padding has no part in m and mean(...); in
    the code it has in the latter. One value per feature is served. Errors: refused where `num_groups` does not fit.
    Not the same as: `batch` (no mean is taken away), `rms` (which is `group_scaling` alone). Algorithm 2 is taken from
    the authors' issue 3, not from the paper's text.
    """

    running_square: Tensor
    nu: Tensor
    updates: Tensor

    def __init__(
        self,
        site: Site,
        *,
        eps: float = 1e-5,
        alpha_fwd: float = 0.9,
        alpha_bkd: float = 0.9,
        warmup_updates: int = 10000,
        form: str = "paper",
        group_scaling: bool = True,
        num_groups: int = 1,
        affine: bool = True,
        bias: bool = True,
        gain_init: float = 1.0,
    ) -> None:
        super().__init__(site)
        self.eps, self.alpha_fwd, self.alpha_bkd = eps, alpha_fwd, alpha_bkd
        self.momentum = 1 - alpha_fwd
        self.warmup_updates, self.as_code = warmup_updates, form == "code"
        self.num_groups = num_groups if group_scaling else 0
        self.gain, self.bias = gain_and_bias([site.features], affine, bias, gain_init)
        self.register_buffer("running_square", torch.ones(site.features))
        self.register_buffer("nu", torch.zeros(site.features))
        self.register_buffer("updates", torch.tensor(0))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        axis = self.site.feature_axis
        if self.num_groups:
            groups = x.unflatten(axis, (self.num_groups, -1))
            x = (groups / self._root(groups.square().mean(axis + 1, keepdim=True))).flatten(axis, axis + 1)
        shape = [-1 if i == axis else 1 for i in range(x.dim())]
        z = self._trained(x, mask, shape) if self.training else x / self._root(self.running_square.view(shape))
        return affine(z, self.gain, self.bias, axis)

    def _root(self, square: Tensor) -> Tensor:
        return (square + self.eps).sqrt()

    def _trained(self, x: Tensor, mask: Tensor | None, shape: list[int]) -> Tensor:
        """z of a training pass, of which nu learns in the backward pass."""
        updates, learns, nu = int(self.updates), self.track, self.nu.view(shape)
        mean = _mean(x, mask, self.site.feature_axis)
        square = mean(x.square())
        warm, batch = updates < self.warmup_updates, self._root(square)
        root = batch if warm else self._root(self.running_square.view(shape))
        divisor = (batch if self.as_code else root).detach()

        @torch.no_grad()
        def approximate(g: Tensor, z: Tensor) -> Tensor:
            corrected = g - nu * z
            if learns:
                nu.add_(mean(corrected * z), alpha=1 - self.alpha_bkd)
            return corrected / divisor

        if warm and not self.as_code:
            z = x / root
            if z.requires_grad:
                held = z.detach()
                z.register_hook(lambda g: (approximate(g, held), None)[1])  # None: the gradient stays
        else:
            z = _Approximate.apply(x, root.detach(), approximate)
        if self.track:
            if self.as_code and updates + 1 < self.warmup_updates and self.momentum is not None:
                average([self.running_square], [square.flatten()], 1 / (updates + 1))
            average([self.running_square], [square.flatten()], self.share())
            self.updates += 1
        return z


def _mean(x: Tensor, mask: Tensor | None, axis: int) -> Callable[[Tensor], Tensor]:
    """The mean of each feature over the valid positions of tensors like x."""
    over = [i for i in range(x.dim()) if i != axis]
    if mask is None:
        return lambda values: values.mean(over, keepdim=True)
    valid = mask.view(*mask.shape, *[1] * (x.dim() - mask.dim())).to(x.dtype)
    count = (valid.sum() * (x.numel() / x.shape[axis] / mask.numel())).clamp(min=1)
    return lambda values: (values * valid).sum(over, keepdim=True) / count


class _Approximate(torch.autograd.Function):
    """z = x / root, with the gradient `approximate(g, z)` by x, g that by z."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, root: Tensor, approximate: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        z = x / root
        ctx.save_for_backward(z)
        ctx.approximate = approximate
        return z

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return ctx.approximate(gradients[0], *ctx.saved_tensors), None, None
