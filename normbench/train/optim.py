"""Optimizers by name, and their state as named tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn


def build(config: Mapping[str, Any], model: nn.Module) -> torch.optim.Optimizer:
    """`adam`: torch.optim.Adam (Kingma and Ba 2014; eps is added after v has been corrected), fused kernel."""
    assert config["name"] == "adam", config["name"]
    return torch.optim.Adam(
        model.parameters(), lr=config["lr"], betas=tuple(config["betas"]), eps=config["eps"], fused=True
    )


def state_tensors(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """Every tensor of the optimizer's state as `PARAMETER:KEY`, e.g. `logits.linear.weight:exp_avg`."""
    return {
        f"{name}:{key}": value
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state[parameter].items()
    }


def load_state(optimizer: torch.optim.Optimizer, model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """The inverse of `state_tensors`."""
    parameters = dict(model.named_parameters())
    for full, value in tensors.items():
        name, key = full.rsplit(":", 1)
        optimizer.state[parameters[name]][key] = value
