"""Half of layer normalization: the mean over the features is taken away, nothing is divided."""

import torch
from torch import Tensor, nn

from normbench.extend import Normalizer, Site, normalizer


@normalizer("centre")
class Centre(Normalizer):
    """y = x - mean over the features + b. Shapes: any with a feature axis."""

    def __init__(self, site: Site, *, bias: bool = True) -> None:
        super().__init__(site)
        self.bias = nn.Parameter(torch.zeros(site.features)) if bias else None

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        y = x - x.mean(self.site.feature_axis, keepdim=True)
        return y if self.bias is None else y + self.bias
