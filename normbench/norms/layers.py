"""Linear maps and convolutions with a normalizer of their weights, their summed inputs or their activations."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch.nn.functional as F
from torch import Tensor, nn

from normbench.norms.base import Product, WeightNormalizer, build
from normbench.norms.sites import Choice, Site


class Weighted(nn.Module):
    """A module whose weights may have normalizers of kind `weight` or `block`."""

    def start(self) -> None:
        """Let weight normalizers take their initial values from the weights as they are now."""


class NormedLinear(Weighted):
    """act(norm(x W^T + b)): a linear map, its normalizer and the non-linearity, unless the normalizer replaces this.

    `pre_activation` normalizes the summed inputs (LN 2016, eq. 3), `post_activation` the activations, `weight` the
    matrix W, `block` both W and the activations; one of W may stand beside one of the others (`choice.weight`). Without
    a normalizer: act(x W^T + b). `summed`: a second site, of the summed inputs, where a model has one on either side of
    the non-linearity. `bias`: false for a map without one.
    Shapes: (*, in_features) -> (*, out_features); mask as the normalizer's.
    """

    def __init__(
        self,
        inputs: int,
        site: Site,
        choice: Choice | None,
        activation: Callable[[Tensor], Tensor],
        summed: tuple[Site, Choice | None] | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        chosen = [(site, choice), *([summed] if summed else [])]
        self.linear = self.linear_map(inputs, site.features, bias and all(c is None or c.keep_bias for _, c in chosen))
        self.norm = build(site, choice) if choice else None
        self.weight_norm = build(site, choice.weight) if choice and choice.weight else None
        self.before = build(summed[0], summed[1]) if summed and summed[1] else None
        self.after = choice is not None and choice.kind == "post_activation"
        self.activation = nn.Identity() if any(c is not None and c.replaces for _, c in chosen) else activation
        self.start()

    def begin_epoch(self) -> None:
        """Of the normalizers here, for a layer that stands alone; `end_epoch` as well."""
        for norm in filter(None, (self.norm, self.before)):
            norm.begin_epoch()

    def end_epoch(self) -> None:
        for norm in filter(None, (self.norm, self.before)):
            norm.end_epoch()

    def linear_map(self, inputs: int, outputs: int, bias: bool) -> nn.Linear | nn.Conv2d:
        return nn.Linear(inputs, outputs, bias=bias)

    def product(self, x: Tensor) -> Product:
        """The map as a function of its weight and bias."""
        return partial(F.linear, x)

    def of_weight(self) -> WeightNormalizer | None:
        """The normalizer of the matrix."""
        return next((norm for norm in (self.norm, self.weight_norm) if isinstance(norm, WeightNormalizer)), None)

    def start(self) -> None:
        if norm := self.of_weight():
            norm.start(self.linear.weight)

    def once(self) -> Callable[[Tensor], Tensor]:
        """The layer for many inputs of one pass, its weight normalized once for all of them."""
        norm = self.of_weight()
        if norm is None or norm.pending:
            return self
        weight = norm(self.linear.weight)
        return lambda x: self._output(self.product(x)(weight, self.linear.bias))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        weight, bias, norm = self.linear.weight, self.linear.bias, self.of_weight()
        if not x.numel():
            return self.activated(self.product(x)(weight, bias))
        return self._output(norm.summed(self.product(x), weight, bias) if norm else self.product(x)(weight, bias), mask)

    def _output(self, z: Tensor, mask: Tensor | None = None) -> Tensor:
        if self.before is not None:
            z = self.before(z)
        if isinstance(self.norm, WeightNormalizer):
            return self.norm.finish(self.activated(z))
        if self.norm is None:
            return self.activated(z)
        return self.norm(self.activated(z), mask) if self.after else self.activated(self.norm(z, mask))

    def activated(self, z: Tensor) -> Tensor:
        return self.activation(z)


class NormedConv(NormedLinear):
    """The same with a convolution of stride 1 for the linear map; `pool` comes after the non-linearity.

    `same`: padded with zeros so that height and width stay.
    Shapes: (B, inputs, height, width) -> (B, features, height, width), less kernel - 1 where it is not padded; with the
    channels last, inputs and outputs, where the site's axes have them there.
    """

    def __init__(
        self,
        inputs: int,
        site: Site,
        choice: Choice | None,
        activation: Callable[[Tensor], Tensor],
        summed: tuple[Site, Choice | None] | None = None,
        *,
        kernel: int,
        same: bool = False,
        pool: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        self.kernel, self.padding = kernel, (kernel - 1) // 2 if same else 0
        self.channels_last = site.feature_axis == len(site.axes) - 1
        super().__init__(inputs, site, choice, activation, summed)
        self.pool = pool

    def activated(self, z: Tensor) -> Tensor:
        h = self.activation(z)
        return h if self.pool is None else self.pool(h)

    def linear_map(self, inputs: int, outputs: int, bias: bool) -> nn.Conv2d:
        return nn.Conv2d(inputs, outputs, self.kernel, padding=self.padding, bias=bias)

    def product(self, x: Tensor) -> Product:
        if not self.channels_last:
            return partial(F.conv2d, x, padding=self.padding)
        # views: torch convolves channels that lie last in memory as they are
        convolved = partial(F.conv2d, x.permute(0, 3, 1, 2), padding=self.padding)
        return lambda weight, bias: convolved(weight, bias).permute(0, 2, 3, 1)
