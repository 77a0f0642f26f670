"""Permutation-invariant MNIST network, 784-1000-1000-10 (LN 2016, section 6.6, Fig. 6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from normbench.models.base import Model, Sites
from normbench.norms.base import NormedLinear

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid}


class MnistMLP(Model):
    """Softmax classifier on fully connected layers; -log p(y | x) in float32, down to its resolution of 1e-7.

    Sites: `hidden.0`, `hidden.1`, ... (summed inputs of each hidden layer) and `logits`.
    Shapes: inputs (B, features) in [0, 1], targets (B,) int64.
    """

    def __init__(self, features: int, hidden_sizes: list[int], activation: str, sites: Sites) -> None:
        super().__init__()
        act = ACTIVATIONS[activation]
        sizes = [features, *hidden_sizes]
        self.hidden = nn.ModuleList(
            NormedLinear(inputs, *sites(f"hidden.{i}"), act) for i, (inputs, _) in enumerate(pairwise(sizes))
        )
        self.logits = NormedLinear(sizes[-1], *sites("logits"), lambda z: z)

    def predict(self, inputs: Tensor) -> Tensor:
        """Logits (B, classes)."""
        h = inputs
        for layer in self.hidden:
            h = layer(h)
        return self.logits(h)

    def forward(self, inputs: Tensor, targets: Tensor) -> Tensor:
        # log-softmax rather than log(p + eps): the figure's axis goes down to 1e-7
        return F.cross_entropy(self.predict(inputs), targets)

    def evaluate(self, inputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        logits = self.predict(inputs)
        nll = F.cross_entropy(logits, targets, reduction="none")
        return {"nll": nll, "error": (logits.argmax(-1) != targets).float()}


def build(config: Mapping[str, Any], sites: Sites) -> MnistMLP:
    model, data = config["model"], config["data"]["declares"]
    return MnistMLP(data["features"], model["hidden_sizes"], model["activation"], sites)
