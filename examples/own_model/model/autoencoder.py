"""An autoencoder, a model that is no classifier: it reconstructs each input from a few hidden units."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from normbench.extend import Model, NormedLinear, Sites


class Autoencoder(Model):
    """x' = W relu(norm(V x)). The parameters of `forward` and `evaluate` are names of the data's tensors."""

    loss = "mse"  # the metric of `evaluate` that `forward` is the mean of

    def __init__(self, features: int, sites: Sites) -> None:
        super().__init__()
        self.code = NormedLinear(features, *sites("code"), F.relu)
        self.back = nn.Linear(self.code.linear.out_features, features)

    def forward(self, inputs: Tensor) -> Tensor:
        """The mean loss of a batch, one number."""
        return self.evaluate(inputs)["mse"].mean()

    def evaluate(self, inputs: Tensor) -> dict[str, Tensor]:
        """Each metric of each example, (B,)."""
        return {"mse": (self.back(self.code(inputs)) - inputs).square().mean(-1)}


def build(config: Mapping[str, Any], sites: Sites) -> Autoencoder:
    return Autoencoder(config["data"]["declares"]["features"], sites)
