"""Inverse square root unit (Carlile et al. 2017): a plain module of PyTorch; nothing of normbench is needed."""

import torch
from torch import Tensor, nn


class ISRU(nn.Module):
    """y = gain * x / sqrt(1 + (alpha x)^2) + bias, alpha one number for all features."""

    def __init__(self, features: int, alpha: float = 0.5) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.full((1,), alpha))
        self.gain = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x: Tensor) -> Tensor:
        return self.gain * x * torch.rsqrt(1 + (self.alpha * x).square()) + self.bias
