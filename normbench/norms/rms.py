"""Root mean square normalization (Zhang and Sennrich 2019), whole and partial."""

from __future__ import annotations

import math

import torch.nn.functional as F
from torch import Tensor

from normbench.errors import BadInput
from normbench.norms.base import Normalizer, affine, gain_and_bias, normalizer, root
from normbench.norms.fused import RMS, FusedSpec
from normbench.norms.sites import Site

AXES = {"last": ("feature",), "space": ("space",), "all": ("feature", "space")}


@normalizer("rms")
class RMSNorm(Normalizer):
    """y = g * x / RMS(x) (+ b), RMS(x) = sqrt(mean of x_i^2) over the features of one position (paper, eq. 4).

    Args:
        normalized_axes: `last`: the feature axis, per position; `space`: the space axes of each channel (paper, A.4),
            or the features where a site has no space; `all`: feature and space axes of a sample together.
        eps, eps_mode: `in` the root (authors' TensorFlow code), or `out`: RMS + eps (authors' Torch code).
        p, partial: RMS of the first k = floor(p n) of n values alone, applied to all (pRMSNorm), as int(d p) in the
            authors' Torch code; the paper has `ceil` (section 5). Over several axes in the order of x.
        affine, bias, gain_init: gain g; the offset b is off, as in the authors' code. One of each per feature.

    Shapes: x in the site's layout; the same in training and evaluation, no mean is taken away.
    Errors: a `p` that leaves no value.
    Not the same as: `nn.RMSNorm()` without eps, which takes the machine epsilon; `nn.LayerNorm` of centred data (equal
    only there); `layer` with `normalized_axes=all`, whose gain is per element.
    """

    def __init__(
        self,
        site: Site,
        *,
        normalized_axes: str = "last",
        eps: float = 1e-8,
        eps_mode: str = "in",
        p: float = 1.0,
        partial: str = "floor",
        affine: bool = True,
        bias: bool = False,
        gain_init: float = 1.0,
    ) -> None:
        super().__init__(site)
        self.eps, self.eps_mode = eps, eps_mode
        names = AXES[normalized_axes] if "space" in site.axes else AXES["last"]
        self.axes = [i for i, axis in enumerate(site.axes) if axis in names]
        values = math.prod(site.space if "space" in names else ()) * (site.features if "feature" in names else 1)
        # 0.29 * 100 is 28.999..., 0.07 * 100 is 7.000...01
        self.used = math.floor(p * values + 1e-9) if partial == "floor" else math.ceil(p * values - 1e-9)
        if self.used < 1:
            raise BadInput(
                f"rms at site '{site.path}': p={p} leaves none of its {values} "
                f"{'values' if 'feature' in names else 'positions'}."
            )
        self.whole = self.used == values
        self.gain, self.bias = gain_and_bias([site.features], affine, bias, gain_init)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        axis = self.site.feature_axis
        if self._is_torchs:
            last = axis == x.dim() - 1
            y = F.rms_norm(x if last else x.movedim(axis, -1), (self.site.features,), self.gain, self.eps)
            y = y if self.bias is None else y + self.bias
            return y if last else y.movedim(-1, axis)
        return affine(x / root(self._mean_square(x), self.eps, self.eps_mode), self.gain, self.bias, axis)

    def fused(self) -> FusedSpec | None:
        return FusedSpec(RMS, self.eps, self.gain, self.bias) if self._is_torchs else None

    @property
    def _is_torchs(self) -> bool:
        return self.whole and self.eps_mode == "in" and self.axes == [self.site.feature_axis]

    def _mean_square(self, x: Tensor) -> Tensor:
        """Over the normalized axes, which stay with size 1."""
        if self.whole:
            return x.square().mean(self.axes, keepdim=True)
        last = list(range(-len(self.axes), 0))
        values = x.movedim(self.axes, last).flatten(last[0])[..., : self.used]
        mean_square = values.square().mean(-1)
        for axis in self.axes:
            mean_square = mean_square.unsqueeze(axis)
        return mean_square
