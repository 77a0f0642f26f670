"""Layer normalization (Ba, Kiros, Hinton 2016)."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from normbench.norms.base import Normalizer, fixed_factor, gain_and_bias, normalizer, root
from normbench.norms.curves import beyond_line, in_out
from normbench.norms.fused import LAYER, LAYER_OUT, FusedSpec
from normbench.norms.sites import Site


@normalizer("layer")
class LayerNorm(Normalizer):
    """y = g * (x - mu) / sqrt(var + eps) + b, moments over the summed inputs of one sample (LN 2016, eq. 3).

    Args:
        normalized_axes: `last`: the feature axis, per position; `all`: feature and space axes of a sample together,
            with a gain and a shift per element (as `nn.LayerNorm([C, H, W])`).
        eps, eps_mode: `in` the root (authors' Theano code), or `out`: std + eps (authors' Torch 7 code).
        affine, bias, gain_init: gain g and shift b; `bias=False` leaves the gain alone.
        scale: `inverse_root_d` divides by the root of the number of features before gain and shift, as BLN does.

    Shapes: x in the site's layout; the same in training and evaluation. The variance is biased.
    Not the same as: eq. 3 of the paper for tiny variances (it has no eps); `nn.GroupNorm(1, C)`, whose gain is per
    channel.
    """

    def __init__(
        self,
        site: Site,
        *,
        normalized_axes: str = "last",
        eps: float = 1e-5,
        eps_mode: str = "in",
        affine: bool = True,
        bias: bool = True,
        gain_init: float = 1.0,
        scale: str = "one",
    ) -> None:
        super().__init__(site)
        self.eps, self.eps_mode = eps, eps_mode
        self.factor = fixed_factor(scale, site)
        over_space = normalized_axes == "all"
        axes = [i for i, axis in enumerate(site.axes) if axis == "feature" or (over_space and axis == "space")]
        sizes = {site.feature_axis: site.features} | dict(
            zip((i for i, axis in enumerate(site.axes) if axis == "space"), site.space, strict=False)
        )
        self.shape = [sizes[i] for i in axes]
        # F.layer_norm wants the normalized axes last
        self.axes = [i - len(site.axes) for i in axes]
        self.gain, self.bias = gain_and_bias(self.shape, affine, bias, gain_init)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        last = list(range(-len(self.axes), 0))
        moved = self.axes != last
        if moved:
            x = x.movedim(self.axes, last)
        if self.eps_mode == "in":
            y = F.layer_norm(x, self.shape, self._gain(x), self.bias, self.eps)
        else:
            centred = x - x.mean(last, keepdim=True)
            y = centred / root(centred.square().mean(last, keepdim=True), self.eps, self.eps_mode)
            gain = self._gain(x)
            y = y if gain is None else y * gain
            y = y if self.bias is None else y + self.bias
        return y.movedim(last, self.axes) if moved else y

    def observe(self, x: Tensor) -> dict[str, Tensor]:
        """How much its map from x to what gain and shift get looks like an S (Zhu et al. 2025, Fig. 2)."""
        x = x.movedim(self.axes, list(range(-len(self.axes), 0)))
        y = F.layer_norm(x, self.shape, eps=self.eps)
        return {"beyond_line": beyond_line(x, y), **in_out(x, y)}

    def fused(self) -> FusedSpec | None:
        kind = LAYER if self.eps_mode == "in" else LAYER_OUT
        return FusedSpec(kind, self.eps, self.gain, self.bias) if self.factor == 1 else None

    def _gain(self, x: Tensor) -> Tensor | None:
        if self.factor == 1:
            return self.gain
        return (x.new_ones(self.shape) if self.gain is None else self.gain) * self.factor
