"""Normalization propagation (Arpit et al. 2016). Approximate: written from memory."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from normbench.norms.base import WeightNormalizer, normalizer
from normbench.norms.sites import Site

# mean and standard deviation of act(z) for z ~ N(0, 1); tanh's by quadrature
MOMENTS = {
    "relu": (math.sqrt(1 / (2 * math.pi)), math.sqrt((1 - 1 / math.pi) / 2)),
    "tanh": (0.0, 0.6279287303491067),
}


@normalizer("norm_propagation")
class NormPropagation(WeightNormalizer):
    """o_i = [act(g_i w_i x / ||w_i||_2 + b_i) - mean] / std, a linear map and its non-linearity as one block.

    mean and std are those of act(z) for z ~ N(0, 1): 0.3989 and 0.5838 for ReLU, 0 and 0.6279 for tanh. There are no
    statistics: if the inputs have mean 0, variance 1 and no correlation, the outputs nearly do. That holds of the
    first layer only where the data set is standardized; here the inputs are what the data set gives.

    *Approximate*: the paper could not be had. Its abstract (PMLR 48:1168-1176) and a reader's note of 2016 agree with
    norm and moments; g = 1/1.21 at first is from memory alone. The moments stay those of g = 1, b = 0.

    Args:
        gain_init: g at first. The shift b is the map's bias, 0 at first.

    Errors: a unit whose weights are all zero; other activations are refused at planning.
    Shapes: weight (features, ...) to the same; a convolution's norm is over channels and kernel.
    Not the same as: weight normalization, which leaves the activations alone.
    """

    def __init__(self, site: Site, *, gain_init: float = 1 / 1.21) -> None:
        super().__init__(site)
        self.mean, self.std = MOMENTS[site.activation]
        self.gain = nn.Parameter(torch.full((site.features,), float(gain_init)))

    def start(self, weight: Tensor) -> None:
        self.refuse_zero_units(weight)

    def forward(self, weight: Tensor, mask: Tensor | None = None) -> Tensor:
        norms = self.norms(weight)
        return weight * (self.gain.view_as(norms) / norms)

    def finish(self, activations: Tensor) -> Tensor:
        return (activations - self.mean) / self.std
