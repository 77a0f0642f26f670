"""Weight normalization (Salimans and Kingma 2016), with its initializations from data and mean-only batch norm."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from normbench.errors import BadInput
from normbench.norms.base import Product, WeightNormalizer, affine, normalizer, wide
from normbench.norms.running import average
from normbench.norms.sites import Site

EPS = 1e-10  # of the initialization from data; weight normalization itself has none


@normalizer("weight")
class WeightNorm(WeightNormalizer):
    """w_i = g_i v_i / ||v_i||_2 for each output unit i; y = w x + b (WN 2016, eq. 2; LN 2016, eq. 5).

    v is the weight of the map and b its bias; the gain g is here. A convolution's norm is over channels and kernel.

    Args:
        init: `preserve`: g = ||v||. `data`: from the first minibatch, with t = v x / ||v||: g = init_scale /
            sqrt(var(t) + 1e-10), b = -mean(t) g (WN 2016, section 3). `lasagne`, the authors' Lasagne code: g = 1,
            b = 0; then g <- g / std and b <- -mean / std of the first minibatch's w x, without an eps and without a
            scale. Variances are biased; without a bias only g is set.
        mean_only_bn: y = w x - mean + b, the mean over the batch (training) or the running one (evaluation);
            `data` and `lasagne` then leave b alone, as the authors do.
        momentum: running mean <- (1 - momentum) running + momentum batch.

    Errors: a unit whose weights are all zero; in `data` and `lasagne` one value per unit, in `lasagne` also a unit that
    does not vary; a time axis with `init` other than `preserve` or with `mean_only_bn` (no rule for it).
    Shapes: weight (features, ...) to the same. Not the same as: weight standardization, which also takes the mean
    of w away; `torch.nn.utils.parametrizations.weight_norm`, except with `preserve` and without mean-only.
    """

    running_mean: Tensor
    initialized: Tensor

    def __init__(
        self,
        site: Site,
        *,
        init: str = "preserve",
        init_scale: float = 1.0,
        mean_only_bn: bool = False,
        momentum: float = 0.1,
    ) -> None:
        super().__init__(site)
        self.init, self.init_scale, self.mean_only_bn, self.momentum = init, init_scale, mean_only_bn, momentum
        if "time" in site.axes and (mean_only_bn or init != "preserve"):
            raise BadInput(
                f"weight normalization at site '{site.path}': over a time axis there is no rule for a batch mean. "
                "Take norm.init=preserve and norm.mean_only_bn=false."
            )
        self.gain = nn.Parameter(torch.ones(site.features))
        if mean_only_bn:
            self.register_buffer("running_mean", torch.zeros(site.features))
        if init != "preserve":
            # saved with the weights: a resumed run must not begin from its next minibatch again
            self.register_buffer("initialized", torch.tensor(False))

    @property
    def pending(self) -> bool:
        return self.init != "preserve" and not self.initialized

    @torch.no_grad()
    def start(self, weight: Tensor) -> None:
        self.refuse_zero_units(weight)
        self.gain.copy_(torch.ones_like(self.gain) if self.init == "lasagne" else self.norms(weight).flatten())

    def forward(self, weight: Tensor, mask: Tensor | None = None) -> Tensor:
        norms = self.norms(weight)
        return weight * (self.gain.view_as(norms) / norms)

    def summed(self, product: Product, weight: Tensor, bias: Tensor | None) -> Tensor:
        if self.training and (self.track or self.starting) and self.pending:
            with torch.no_grad():
                self._from_data(product((weight / self.norms(weight)).to(weight.dtype), None), bias)
        if not self.mean_only_bn:
            return product(self(weight), bias)
        z = product(self(weight), None)
        others = [i for i in range(z.dim()) if i != self.site.feature_axis]
        mean = z.mean(others, dtype=self.running_mean.dtype) if self.training else self.running_mean
        if self.training and self.track:
            average([self.running_mean], [mean], self.momentum)
        shift = -mean if bias is None else bias - mean
        return affine(z, None, shift.to(z.dtype), self.site.feature_axis)

    def _from_data(self, t: Tensor, bias: Tensor | None) -> None:
        values = wide(t.movedim(self.site.feature_axis, -1).flatten(0, -2))
        variance, mean = torch.var_mean(values, dim=0, correction=0)
        std = (variance + EPS).sqrt() if self.init == "data" else variance.sqrt()
        if len(values) == 1 or not (std > 0).all():
            raise BadInput(
                f"weight normalization at site '{self.site.path}': with norm.init={self.init} every unit must vary "
                f"over the first minibatch, which has {len(values)} value(s) per unit. Use larger batches, or "
                "norm.init=preserve."
            )
        self.gain.copy_((self.init_scale if self.init == "data" else 1.0) / std)
        if bias is not None and not self.mean_only_bn:
            bias.copy_(-mean * self.gain)
        self.initialized.fill_(True)
