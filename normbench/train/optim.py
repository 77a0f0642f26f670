"""Optimizers by name, and their state as named tensors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn


def build(config: Mapping[str, Any], model: nn.Module) -> torch.optim.Optimizer:
    """The configured optimizer: `adam` (torch.optim.Adam) or `keras_adam`, both on the fused kernel."""
    kind = {"adam": torch.optim.Adam, "keras_adam": KerasAdam}[config["name"]]
    return kind(model.parameters(), lr=config["lr"], betas=tuple(config["betas"]), eps=config["eps"], fused=True)


class KerasAdam(torch.optim.Adam):
    """p <- p - lr sqrt(1 - beta2^t) / (1 - beta1^t) m / (sqrt(v) + eps): eps beside the uncorrected root of v.

    Kingma and Ba 2014, end of section 2 ("epsilon hat"); tf.keras. torch's Adam, whose eps stands beside
    sqrt(v / (1 - beta2^t)), with eps / sqrt(1 - beta2^t) in its place at step t. Every parameter has a gradient at
    every step.
    """

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        for group in self.param_groups:
            group["eps_hat"] = group["eps"]
        # not a `step` of its own: torch wraps both, and at batch 1 that is felt
        self.register_step_pre_hook(_place_eps)


def _place_eps(optimizer: torch.optim.Optimizer, arguments: Any, keywords: Any) -> None:
    for group in optimizer.param_groups:
        state = optimizer.state.get(group["params"][0])
        t = int(state["step"]) + 1 if state else 1
        group["eps"] = group["eps_hat"] / math.sqrt(1 - group["betas"][1] ** t)


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
