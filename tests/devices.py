"""Modules on another device: the meta device, which everybody has, and CUDA, for those who have it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")


def to_meta(module: nn.Module) -> nn.Module:
    """Its tensors without values; counters keep theirs, for something is decided by them.

    An operation that is handed a tensor of the CPU beside one of the meta device refuses it, as with CUDA.
    """
    return module._apply(lambda tensor: tensor if tensor.dim() == 0 else tensor.to("meta"))
