"""Ghost batch normalization (Hoffer, Hubara, Soudry 2017)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from normbench.errors import BadInput
from normbench.norms.base import Normalizer, affine, gain_and_bias, normalizer
from normbench.norms.running import Averaging, average
from normbench.norms.sites import Site


@normalizer("ghost_batch")
class GhostBatchNorm(Normalizer, Averaging):
    """Batch normalization of each chunk of `ghost_size` samples by its own moments; gain and shift are shared.

    Training updates r <- (1 - momentum) r + momentum s once per chunk, in order, so that the last chunk weighs most: as
    the authors' code does (eladhoffer/bigBatch, main_gbn.py). Whether the paper's algorithm 1 does was not checked.
    Evaluation: r.

    Args:
        ghost_size: samples in a chunk. A remainder of one sample joins the chunk before it.
        average: of `var` as batch normalization does, or of `std`, as the paper's algorithm is remembered.
        unbiased_running: n/(n-1) variance in the running average.
        allow_single: one value per feature gives `bias`; otherwise it is an error.

    Shapes: x in the site's layout with the batch first; space and time count as further values of a feature.
    Not the same as: `nn.BatchNorm1d` unless the batch is one chunk; the authors' own training script, which sends the
    chunks through the network one by one (the same numbers in a network without other batch statistics).
    """

    running_mean: Tensor
    running_spread: Tensor

    def __init__(
        self,
        site: Site,
        *,
        ghost_size: int = 128,
        eps: float = 1e-5,
        momentum: float = 0.1,
        average: str = "var",
        affine: bool = True,
        bias: bool = True,
        gain_init: float = 1.0,
        unbiased_running: bool = True,
        allow_single: bool = False,
    ) -> None:
        super().__init__(site)
        self.ghost_size, self.eps, self.momentum, self.average = ghost_size, eps, momentum, average
        self.unbiased_running, self.allow_single = unbiased_running, allow_single
        self.gain, self.bias = gain_and_bias([site.features], affine, bias, gain_init)
        self.register_buffer("running_mean", torch.zeros(site.features))
        self.register_buffer("running_spread", torch.ones(site.features))  # what is averaged: variance or deviation

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        axis = self.site.feature_axis
        x = x.movedim(axis, 1)
        if self.training:
            y = torch.cat([self._chunk(part) for part in x.split(self._sizes(len(x)))])
        else:
            variance = self.running_spread if self.average == "var" else self.running_spread.square()
            y = F.batch_norm(x, self.running_mean, variance, self.gain, self.bias, eps=self.eps)
        return y.movedim(1, axis)

    def _sizes(self, samples: int) -> list[int]:
        sizes = [self.ghost_size] * (samples // self.ghost_size)
        remainder = samples % self.ghost_size
        if remainder == 1 and sizes:
            sizes[-1] += 1
        elif remainder:
            sizes.append(remainder)
        return sizes

    def _chunk(self, x: Tensor) -> Tensor:
        count = x.numel() // self.site.features
        if count == 1:
            return self._single(x)
        mean, variance = x.new_zeros(self.site.features), x.new_ones(self.site.features)
        y = F.batch_norm(x, mean, variance, self.gain, self.bias, True, 1.0, self.eps)  # writes the chunk's moments
        if self.track:
            spread = variance if self.unbiased_running else variance * ((count - 1) / count)
            new = mean, spread if self.average == "var" else spread.sqrt()
            average((self.running_mean, self.running_spread), new, self.share())
        return y

    def _single(self, x: Tensor) -> Tensor:
        if not self.allow_single:
            raise BadInput(
                f"ghost batch normalization at site '{self.site.path}' met one value per feature. Use larger batches "
                "and ghosts, or norm.allow_single=true."
            )
        # x * 0 keeps the graph: the gradient is zero, as it is for one value
        return affine(x * 0.0, None, self.bias, 1)
