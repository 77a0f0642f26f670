"""Where modules compute: the meta device, which everybody has, CUDA and the C kernel, for those who have them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from normbench.norms import kernel

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")


def has_kernel() -> bool:
    try:
        kernel.load()
    except kernel.Unavailable:
        return False
    return True


def to_meta(module: nn.Module) -> nn.Module:
    """Its tensors without values; counters keep theirs, for something is decided by them.

    An operation that is handed a tensor of the CPU beside one of the meta device refuses it, as with CUDA.
    """

    def move(tensor: torch.Tensor) -> torch.Tensor:
        counts = tensor.dim() == 0 and not isinstance(tensor, nn.Parameter)
        return tensor if counts else tensor.to("meta")

    return module._apply(move)
