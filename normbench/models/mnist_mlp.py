"""Permutation-invariant MNIST network, 784-1000-1000-10 (LN 2016, section 6.6, Fig. 6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from normbench.models.base import Classifier, Sites
from normbench.norms.layers import NormedLinear

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid}


class MnistMLP(Classifier):
    """Softmax classifier on fully connected layers; -log p(y | x) in float32, down to its resolution of 1e-7:
    the figure's axis goes so far, which log(p + eps) would not.

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


def build(config: Mapping[str, Any], sites: Sites) -> MnistMLP:
    model, data = config["model"], config["data"]["declares"]
    return MnistMLP(data["features"], model["hidden_sizes"], model["activation"], sites)
