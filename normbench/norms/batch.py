"""Batch normalization (Ioffe and Szegedy 2015), with the choices that papers and frameworks make differently."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from normbench.errors import NormbenchError
from normbench.norms.base import Normalizer, gain_and_bias, normalizer
from normbench.norms.sites import Site


@normalizer("batch")
class BatchNorm(Normalizer):
    """y = gain * (x - mu_B) / sqrt(var_B + eps) + bias, moments over batch and space axes per feature.

    Training normalizes with the batch and updates r <- (1 - momentum) r + momentum s; evaluation uses r. The LN
    paper's eq. 2 uses the population expectation and no eps.

    Args:
        unbiased_norm: n/(n-1) variance in the normalization as well (LN 2016, 6.6, "the unbiased estimator").
        unbiased_running: n/(n-1) variance in the running average (as PyTorch; Keras does not for 2-D inputs).
        eval_stats: `running`, or `batch`: evaluation normalizes with its own batch.
        also_momenta: further running averages; each is an inference variant `momentum=M`.
        allow_single: one value per feature gives `bias` (as Keras); otherwise it is an error.

    Shapes: x in the site's layout. Not the same as `nn.BatchNorm1d` for one value per feature, and for
    `unbiased_norm`, which PyTorch lacks.
    """

    running_mean: Tensor
    running_var: Tensor
    batch_mean: Tensor
    batch_var: Tensor

    def __init__(
        self,
        site: Site,
        *,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        bias: bool = True,
        gain_init: float = 1.0,
        unbiased_norm: bool = False,
        unbiased_running: bool = True,
        eval_stats: str = "running",
        also_momenta: Sequence[float] = (),
        allow_single: bool = False,
    ) -> None:
        super().__init__(site)
        self.eps, self.eval_stats, self.allow_single = eps, eval_stats, allow_single
        self.unbiased_norm, self.unbiased_running = unbiased_norm, unbiased_running
        self.gain, self.bias = gain_and_bias([site.features], affine, bias, gain_init)
        self.variants = tuple(f"momentum={m}" for m in also_momenta)
        self.momenta = {"": momentum} | dict(zip(self.variants, also_momenta, strict=True))
        rows = len(self.momenta)
        self.register_buffer("running_mean", torch.zeros(rows, site.features))
        self.register_buffer("running_var", torch.ones(rows, site.features))
        # F.batch_norm with momentum 1 writes the batch's own moments here, for every running average to share
        self.register_buffer("batch_mean", torch.zeros(site.features), persistent=False)
        self.register_buffer("batch_var", torch.ones(site.features), persistent=False)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        axis = self.site.feature_axis
        x = x.movedim(axis, 1) if axis != 1 else x
        if self.training or self.eval_stats == "batch":
            y = self._by_batch(x)
        else:
            row = list(self.momenta).index(self.variant)
            y = F.batch_norm(x, self.running_mean[row], self.running_var[row], self.gain, self.bias, eps=self.eps)
        return y.movedim(1, axis) if axis != 1 else y

    def _by_batch(self, x: Tensor) -> Tensor:
        count = x.numel() // self.site.features
        if count == 1:
            return self._single(x)
        gain, eps = self.gain, self.eps
        if self.unbiased_norm:
            # 1/sqrt(v n/(n-1) + eps) = sqrt((n-1)/n) / sqrt(v + eps (n-1)/n): exact, on the fused built-in
            shrink = (count - 1) / count
            eps = eps * shrink
            gain = (x.new_ones(self.site.features) if gain is None else gain) * shrink**0.5
        y = F.batch_norm(x, self.batch_mean, self.batch_var, gain, self.bias, training=True, momentum=1.0, eps=eps)
        if self.training and self.track:
            self._update(count)
        return y

    @torch.no_grad()
    def _update(self, count: int) -> None:
        variance = self.batch_var if self.unbiased_running else self.batch_var * ((count - 1) / count)
        for row, momentum in enumerate(self.momenta.values()):
            self.running_mean[row].lerp_(self.batch_mean, momentum)
            self.running_var[row].lerp_(variance, momentum)

    def _single(self, x: Tensor) -> Tensor:
        if not self.allow_single:
            raise NormbenchError(
                f"batch normalization at site '{self.site.path}' met one value per feature. Use larger batches, or "
                "norm.allow_single=true."
            )
        y = x * 0.0  # keeps the graph: the gradient is zero, as it is for one value
        return y if self.bias is None else y + self.bias.view(-1, *[1] * (x.dim() - 2))
