"""A residual network for vectors: x + W relu(norm(V x)) per block, then logits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from normbench.extend import Classifier, NormedLinear, Sites


class Residual(Classifier):
    """`Classifier` makes loss and metrics of logits; another model is a `Model` with `forward` and `evaluate`."""

    def __init__(self, features: int, width: int, depth: int, classes: int, sites: Sites) -> None:
        super().__init__()
        self.block = nn.ModuleList(NormedLinear(features, *sites(f"block.{i}"), F.relu) for i in range(depth))
        self.back = nn.ModuleList(nn.Linear(width, features) for _ in range(depth))
        self.logits = nn.Linear(features, classes)

    def predict(self, inputs: Tensor) -> Tensor:
        x = inputs
        for block, back in zip(self.block, self.back, strict=True):
            x = x + back(block(x))
        return self.logits(x)


def build(config: Mapping[str, Any], sites: Sites) -> Residual:
    """What normbench calls: `config` is the composed configuration, `sites` the normalizers chosen for it."""
    model, data = config["model"], config["data"]["declares"]
    return Residual(data["features"], model["width"], model["depth"], data["classes"], sites)
