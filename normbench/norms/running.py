"""Running statistics."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


@torch.no_grad()
def average(
    running: Sequence[Tensor], new: Sequence[Tensor], share: float | Tensor, found: Tensor | None = None
) -> None:
    """r <- (1 - share) r + share n for each of both, in place; r stays where `found` is false.

    A share of 1/b for the b-th batch gives the mean of all batches.
    """
    for of, value in zip(running, new, strict=True):
        of.lerp_(value if found is None else torch.where(found, value, of), share)
