"""Adjustments between the backward pass and the optimizer's step: learning rate schedules and gradient clipping."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from normbench.errors import unknown
from normbench.rnn.cells import Cell
from normbench.train.optim import construct


class Clipping:
    """Called before the optimizer's step of each update, with the number of the update, from 0.

    `schedule`: the class of torch.optim.lr_scheduler that the choice declares, stepped at every update. A resumed run
    steps its schedule through the earlier updates again, so that checkpoints need not hold it.
    `clip`: one of `RULES`, on the gradients of all parameters.
    Errors: options that do not go together, or not with the optimizer; no such rule.
    """

    def __init__(self, config: Mapping[str, Any], model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self.scheduler = _scheduler(config["schedule"], optimizer)
        self.parameters = dict(model.named_parameters())
        clip = config["clip"]["name"]
        if clip not in RULES:
            raise unknown(f"clip={clip} has no code here, and a file of one's own brings none.", clip, RULES)
        self.rule = RULES[clip]
        self.rows = blocks_of_rows(model) if clip == "per_tensor" else {}
        self.at = config["clip"].get("at")

    def __call__(self, number: int) -> dict[str, bool]:
        """`{"clipped": whether any gradient was changed}`; empty where there is no clipping."""
        if self.scheduler is not None:
            with warnings.catch_warnings():  # about a step of the optimizer, which was taken before the interruption
                warnings.simplefilter("ignore")
                while self.scheduler.last_epoch < number:
                    self.scheduler.step()
        if self.rule is None:
            return {}
        gradients = {name: p.grad for name, p in self.parameters.items() if p.grad is not None}
        for name in self.rows.keys() & gradients.keys():
            parts = gradients.pop(name).split(self.rows[name])
            gradients.update({f"{name}.{i}": part for i, part in enumerate(parts)})
        return {"clipped": self.rule(gradients, self.at)}


def _scheduler(config: Mapping[str, Any], optimizer: torch.optim.Optimizer) -> Any:
    if config["name"] == "none":
        return None
    rate = config["declares"].get("rate")  # the name of the argument for which the class takes optim.lr
    further = {rate: optimizer.defaults["lr"]} if rate else {}
    return construct("schedule", config, vars(torch.optim.lr_scheduler), optimizer, **further)


# --- clipping: changes gradients in place, returns whether it did ----------------------------------------------------

Gradients = Mapping[str, Tensor]  # by the name of the parameter


def blocks_of_rows(model: nn.Module) -> dict[str, list[int]]:
    """Rows of each block in recurrent parameters with several blocks, such as a GRU's gates (2H) and candidate (H).

    In the authors' codes these blocks are separate parameters.
    """
    blocks = {}
    for path, cell in model.named_modules():
        if isinstance(cell, Cell) and len(cell.blocks) > 1:
            rows = [gates * cell.hidden_size for gates in cell.blocks.values()]
            for name, parameter in cell.named_parameters(path, recurse=False):
                if len(parameter) == sum(rows):
                    blocks[name] = rows
    return blocks


def _norm(gradients: Gradients) -> float:
    """The norm of all gradients as one vector."""
    return torch.stack([torch.linalg.vector_norm(g) for g in gradients.values()]).norm().item()


def _scale(gradients: Gradients, factor: float) -> None:
    for gradient in gradients.values():
        gradient.mul_(factor)


def clip_global(gradients: Gradients, at: float) -> bool:
    """||g|| > at: g <- at g / ||g|| (Pascanu et al. 2013, algorithm 1)."""
    norm = _norm(gradients)
    if norm > at:
        _scale(gradients, at / norm)
    return norm > at


def clip_per_tensor(gradients: Gradients, at: float) -> bool:
    """The same for each parameter by itself; `Clipping` gives a recurrent parameter's blocks one by one."""
    return any([clip_global({name: gradient}, at) for name, gradient in gradients.items()])  # all, not until the first


def clip_attr_legacy(gradients: Gradients, at: float) -> bool:
    """||g|| > at^2: g <- at g / sqrt(||g|| + 1e-8), as if ||g|| were its square (code of the attentive reader)."""
    norm = _norm(gradients)
    if norm > at**2:
        _scale(gradients, at / (norm + 1e-8) ** 0.5)
    return norm > at**2


RULES: dict[str, Any] = {
    "none": None,
    "global": clip_global,
    "per_tensor": clip_per_tensor,
    "attr_legacy": clip_attr_legacy,
}
