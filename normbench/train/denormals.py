"""Denormal numbers, with which processors compute many times as slowly (`results/bench/denormals.md`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def flushed() -> Iterator[None]:
    """Inside, in this thread, numbers nearer to 0 than 1.2e-38 (2.2e-308 in float64) count as 0.

    Where an input is seldom other than 0 or a unit is dead, Adam's running mean of the gradient decays, rounds to a few
    of the smallest denormals and stays: a tenth of the first layer's after one epoch of MNIST at batch 4. Of Adam,
    with a common eps, the weights are the same: denormals vanish in the rounding of a weight, and their roots in eps.
    An optimizer that uses only a gradient's sign (rprop), or divides by it without eps, gives other weights.
    Where the processor has no such mode, and on CUDA, nothing changes.
    """
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
