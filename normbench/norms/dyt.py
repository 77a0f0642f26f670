"""Dynamic tanh (Zhu, Chen, He, LeCun, Liu 2025)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from normbench.norms.base import Normalizer, affine, gain_and_bias, normalizer
from normbench.norms.fused import ERF, TANH, FusedSpec
from normbench.norms.sites import Site

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "hardtanh": nn.functional.hardtanh,
    "sigmoid": torch.sigmoid,
    "identity": lambda x: x,
    "erf": torch.erf,
}


def saturated(z: Tensor) -> Tensor:
    """The share of values where tanh and erf are flat."""
    return (z.abs() > 2).to(torch.float32).mean()


@normalizer("dyt")
class DynamicTanh(Normalizer):
    """y = gain * tanh(alpha x) + bias, alpha one number for all features.

    Args:
        alpha_init: 0.5 in the paper, except in language models.
        function: in the place of tanh (the paper's Tables 8 and 9); erf is `derf` without its shift.
        alpha: learned from alpha_init; fixed: it stays there; none: 1.

    Shapes: x in the site's layout; each number by itself, the same in training and evaluation.
    Not the same as: a normalizer, since nothing is measured and no change of scale is undone; `DynamicTanh` of
    x-transformers, whose alpha starts at 1.
    """

    def __init__(self, site: Site, *, alpha_init: float = 0.5, function: str = "tanh", alpha: str = "learned") -> None:
        super().__init__(site)
        self.function = function
        fixed = alpha_init if alpha == "fixed" else 1.0
        self.alpha = nn.Parameter(torch.full((1,), alpha_init)) if alpha == "learned" else fixed
        self.gain, self.bias = gain_and_bias([site.features], True, True, 1.0)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return affine(FUNCTIONS[self.function](self.alpha * x), self.gain, self.bias, self.site.feature_axis)

    def observe(self, x: Tensor) -> dict[str, Tensor]:
        """alpha, and the share of |alpha x| > 2, where tanh is flat."""
        alpha = torch.as_tensor(self.alpha)
        return {"alpha": alpha.mean(), "saturated": saturated(self.alpha * x)}

    def fused(self) -> FusedSpec | None:
        kinds = {"tanh": TANH, "erf": ERF}
        if self.function not in kinds or not isinstance(self.alpha, nn.Parameter):
            return super().fused()
        return FusedSpec(kinds[self.function], gain=self.gain, bias=self.bias, alpha=self.alpha)
