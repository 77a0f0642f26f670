"""AdaNorm (Xu, Sun, Zhang, Zhao, Lin 2019)."""

from __future__ import annotations

from torch import Tensor

from normbench.norms.base import Normalizer, normalizer, root
from normbench.norms.sites import Site


@normalizer("ada")
class AdaNorm(Normalizer):
    """z = scale * y * (1 - k y), y = (x - mu) / (s + eps) over the features of one position (paper, section 4).

    The factor 1 - k y takes no part in the gradient, as in the authors' code (`detach`).

    Args:
        k: 1/10 in the paper. scale: the paper's C (2; they tried 0.8 to 2).
        unbiased: s with n - 1 (`torch.std` of the authors' code); the paper's sigma has n.
        eps: added to s, outside the root.

    Shapes: x in the site's layout; the same in training and evaluation. There is no gain and no shift.
    Not the same as: `layer` for k = 0 and scale = 1 (unbiased, eps outside). It has no 1/sqrt(d), whatever BLN's text
    says of it.
    """

    def __init__(
        self, site: Site, *, k: float = 0.1, scale: float = 2.0, eps: float = 1e-5, unbiased: bool = True
    ) -> None:
        super().__init__(site)
        self.k, self.scale, self.eps = k, scale, eps
        self.count = max(site.features - 1, 1) if unbiased else site.features

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        axis = self.site.feature_axis
        centred = x - x.mean(axis, keepdim=True)
        variance = centred.square().sum(axis, keepdim=True) / self.count
        y = centred / root(variance, self.eps, "out")
        return self.scale * y * (1 - self.k * y).detach()
