"""Spectral normalization (Miyato et al. 2018)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from normbench.core.streams import stream
from normbench.errors import BadInput
from normbench.norms.base import WeightNormalizer, normalizer, wide
from normbench.norms.sites import Site


@normalizer("spectral")
class SpectralNorm(WeightNormalizer):
    """W / sigma with sigma = u^T W v, near the largest singular value of W as (features, rest); no gain.

    A training pass first does a power iteration, u = W v / |W v|, v = W^T u / |W^T u|; evaluation takes u and v as they
    are. Gradients go through W, not through u and v (Miyato et al. 2018, section 2.1 and appendix A).

    Args:
        iterations: power iterations per training pass.
        start_iterations: power iterations when the weights are drawn.
        eps: the least length by which u and v are divided.

    Errors: weights whose largest singular value is below eps, zeros among them, when they are drawn.
    Shapes: weight (features, ...) to the same. u and v start from a fixed draw, not from torch's generator; after
    that the same as `torch.nn.utils.parametrizations.spectral_norm`. Not the same as: the paper's order, which makes v
    before u, half an iteration apart; the norm of a convolution as an operator.
    """

    u: Tensor
    v: Tensor

    def __init__(self, site: Site, *, iterations: int = 1, start_iterations: int = 15, eps: float = 1e-12) -> None:
        super().__init__(site)
        self.iterations, self.start_iterations, self.eps = iterations, start_iterations, eps

    @torch.no_grad()
    def start(self, weight: Tensor) -> None:
        matrix = wide(weight.flatten(1))
        draw = stream(0, "spectral", self.site.path)
        for name, size in zip(("u", "v"), matrix.shape, strict=True):
            vector = torch.from_numpy(draw.standard_normal(size)).to(matrix)
            self.register_buffer(name, F.normalize(vector, dim=0, eps=self.eps))
        # a product that is shorter than eps would give shorter and shorter vectors, and a sigma that means nothing
        if not (matrix @ self.v).norm() > self.eps:
            raise BadInput(
                f"spectral normalization at site '{self.site.path}': the weights are zero or below "
                f"norm.eps={self.eps}. Give them another initial value."
            )
        self.u, self.v = self._power(matrix, self.start_iterations)

    def _power(self, matrix: Tensor, iterations: int) -> tuple[Tensor, Tensor]:
        u, v = self.u, self.v
        with torch.no_grad():
            for _ in range(iterations):
                u = F.normalize(matrix @ v, dim=0, eps=self.eps)
                v = F.normalize(u @ matrix, dim=0, eps=self.eps)
        return u.clone(), v.clone()  # the buffers change with the next pass, maybe before this one's gradient

    def forward(self, weight: Tensor, mask: Tensor | None = None) -> Tensor:
        matrix, device = weight.flatten(1), weight.device.type
        # under autocast as well, products of the weights are computed in the type of the weights
        with torch.autocast(device if torch.amp.is_autocast_available(device) else "cpu", enabled=False):
            u, v = self._power(matrix, self.iterations if self.training else 0)
            sigma = torch.dot(u, matrix @ v)
        if self.training and self.track:
            self.u.copy_(u)
            self.v.copy_(v)
        return weight / sigma
