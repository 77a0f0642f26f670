"""Batch statistics of each step of a sequence or position in space by itself, and of valid positions alone."""

from __future__ import annotations

import math
from collections.abc import Callable

from torch import Tensor

from normbench.norms.base import affine
from normbench.norms.sites import Site


class Places:
    """Which positions of a site share statistics: all, or those of one step, or of one position in space.

    The features of each place are channels of their own. `count`: of places; `masked`: padding takes no part.
    The arguments are `BatchNorm`'s.
    """

    def __init__(self, site: Site, stats: str, t_max: int, use_mask: bool, positions: str) -> None:
        self.feature_axis = site.feature_axis
        self.per_step = stats == "per_step" and "time" in site.axes
        self.masked = stats == "sequence" or (self.per_step and use_mask)
        separate = "time" if self.per_step else "space" if positions == "separate" else ""
        self.axes = [i for i, axis in enumerate(site.axes) if axis == separate]
        self.count = t_max if self.per_step else math.prod(site.space) if self.axes else 1

    def normalize(
        self, x: Tensor, mask: Tensor | None, channelwise: Callable[[Tensor, range, Tensor | None], Tensor]
    ) -> Tensor:
        """x by `channelwise`, which takes (batch, channels, ...), the range of its places, and what is valid."""
        axis = self.feature_axis
        if not self.axes:
            x = x.movedim(axis, 1) if axis != 1 else x
            y = channelwise(x, range(1), None if mask is None else mask[:, None])
            return y.movedim(1, axis) if axis != 1 else y
        at = [axis, *self.axes]
        to = list(range(1, len(at) + 1))
        y = x.movedim(at, to)
        shape = y.shape[1 : to[-1] + 1]
        valid = None if mask is None else mask[:, None, :].expand(y.shape[:3]).flatten(1, 2)
        y = channelwise(y.flatten(1, to[-1]), range(shape[1:].numel()), valid)
        return y.unflatten(1, shape).movedim(to, at)

    def rows(self, moment: Tensor, places: range, stored: int) -> Tensor:
        """A moment of channels as (places, features), of those places that are among the `stored` first."""
        return moment.view(-1, len(places)).T[: len(range(stored)[places.start : places.stop])]


def by_valid(
    x: Tensor, valid: Tensor, eps: float, unbiased_norm: bool, gain: Tensor | None, bias: Tensor | None
) -> tuple[Tensor, tuple[Tensor, Tensor], Tensor]:
    """x (batch, channels, ...) normalized with the moments of its valid positions; the others along with them.

    Further mean and unbiased variance of the channels, and in how many positions each was valid.
    """
    over = [i for i in range(x.dim()) if i != 1]
    weight = valid.view(*valid.shape, *[1] * (x.dim() - valid.dim())).to(x.dtype).expand_as(x)
    valid_count = weight.sum(over)
    count = valid_count.clamp(min=1)
    shape = [-1 if i == 1 else 1 for i in range(x.dim())]
    mean = (x * weight).sum(over) / count
    centred = x - mean.view(shape)
    biased = (centred.square() * weight).sum(over) / count
    unbiased = biased * count / (count - 1).clamp(min=1)
    scale = (valid_count > 0) / ((unbiased if unbiased_norm else biased) + eps).sqrt()
    return affine(centred * scale.view(shape), gain, bias, 1), (mean.detach(), unbiased.detach()), valid_count
