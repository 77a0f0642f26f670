"""Dynamic tanh (Zhu et al. 2025): a plain module of PyTorch; nothing of normbench is needed."""

import torch
from torch import Tensor, nn


class DyT(nn.Module):
    """y = gain * tanh(alpha * x) + bias, alpha one number for all features."""

    def __init__(self, features: int, alpha: float = 0.5) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.full((1,), alpha))
        self.gain = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x: Tensor) -> Tensor:
        return self.gain * torch.tanh(self.alpha * x) + self.bias
