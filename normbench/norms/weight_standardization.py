"""Weight standardization (Qiao et al. 2019)."""

from __future__ import annotations

import torch
from torch import Tensor

from normbench.errors import BadInput
from normbench.norms.base import WeightNormalizer, normalizer, root
from normbench.norms.sites import Site


@normalizer("weight_standardization")
class WeightStandardization(WeightNormalizer):
    """w_i = (v_i - mean(v_i)) / (std(v_i) + eps) for each output unit i; y = w x + b.

    v is the weight of the map; mean and std, which divides by n, are over its n inputs: a convolution's channels and
    kernel. There is no gain: the paper has a normalizer of the summed inputs behind it (`norm.sites`: PATH.weight).

    Errors: units with one input, whose standardized weight is always 0; a unit whose weights are all zero.
    Shapes: weight (features, ...) to the same. Not the same as: weight normalization, which keeps the mean and has a
    gain; the authors' PyTorch layer, whose std divides by n - 1 (in their TensorFlow layer by n); timm's `StdConv2d`,
    sqrt(var + 1e-6), and `ScaledStdConv2d`, which also divides by the root of n and has a gain.
    """

    def __init__(self, site: Site, *, eps: float = 1e-5) -> None:
        super().__init__(site)
        self.eps = eps

    def start(self, weight: Tensor) -> None:
        if weight[0].numel() == 1:
            raise BadInput(
                f"weight standardization at site '{self.site.path}': each unit has one input, so that its weight would "
                "always be 0. Choose another site."
            )
        self.refuse_zero_units(weight)

    def forward(self, weight: Tensor, mask: Tensor | None = None) -> Tensor:
        variance, mean = torch.var_mean(weight, [*range(1, weight.dim())], correction=0, keepdim=True)
        return (weight - mean) / root(variance, self.eps, "out")
