"""No normalization, where a module is asked for."""

from __future__ import annotations

from torch import Tensor

from normbench.norms.base import Normalizer, normalizer
from normbench.norms.fused import NONE, FusedSpec


@normalizer("none")
class NoNorm(Normalizer):
    """y = x. Models leave such a site without a module; it has no parameters."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return x

    def fused(self) -> FusedSpec:
        return FusedSpec(NONE)
