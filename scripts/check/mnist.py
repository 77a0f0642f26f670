"""LN Fig. 6, trained anew: NORMBENCH_DATA=... python scripts/check/mnist.py [--epochs N] [--seed N] [--output DIR]

Permutation-invariant MNIST, written from LN 6.6 and not from normbench: 784-1000-1000-10, ReLU, Glorot uniform weights,
Adam 1e-3, batches of 128 (and of 4, one epoch, once there are runs); the last 55 000 training images. LN on the summed
inputs of the hidden layers, BN on these and, as the paper has it, on the logits; a normalized layer has no bias.
"""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import published
import torch
import torch.nn.functional as F
from formulas import BatchNorm, LayerNorm
from torch import Tensor, nn

SIZES = (784, 1000, 1000, 10)
NORMALIZED = {"none": 0, "bn": 2, "bn-all": 3, "ln": 2, "ln-all": 3}  # layers, from the first
CELLS = [(arm, {"train.batch_size": batch}) for batch in (128, 4) for arm in NORMALIZED]


@cache
def load(root: Path, part: str) -> tuple[Tensor, Tensor]:
    """Grey values / 255 (N, 784) and labels."""

    def values(kind: str, header: int) -> Tensor:
        packed = gzip.decompress((root / "MNIST" / "raw" / f"{part}-{kind}-ubyte.gz").read_bytes())
        return torch.from_numpy(np.frombuffer(packed, np.uint8, offset=header).copy())

    return values("images-idx3", 16).view(-1, 784) / 255, values("labels-idx1", 8).long()


class Bias(nn.Module):
    def __init__(self, d: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(d))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.bias


class Network(nn.Module):
    def __init__(self, arm: str, batch: int) -> None:
        super().__init__()
        self.weights, self.norms = nn.ParameterList(), nn.ModuleList()
        for layer, (inputs, outputs) in enumerate(pairwise(SIZES)):
            bound = (6 / (inputs + outputs)) ** 0.5
            self.weights.append(torch.empty(inputs, outputs).uniform_(-bound, bound))
            if layer >= NORMALIZED[arm]:
                self.norms.append(Bias(outputs))
            elif arm.startswith("bn"):
                # "For the smaller batch-size, the variance term ... is computed using the unbiased estimator"
                self.norms.append(BatchNorm(outputs, 1e-5, 0.1, unbiased=batch == 4))
            else:
                self.norms.append(LayerNorm(outputs, 1e-5))

    def forward(self, x: Tensor) -> Tensor:
        for layer, (weight, norm) in enumerate(zip(self.weights, self.norms, strict=True)):
            x = norm(x @ weight)
            x = x.relu() if layer < 2 else x
        return x


@torch.no_grad()
def test(network: Network, root: Path) -> dict[str, float]:
    images, labels = load(root, "t10k")
    network.eval()
    logits = network(images)
    network.train()
    return {"nll": F.cross_entropy(logits, labels).item(), "error": (logits.argmax(1) != labels).double().mean().item()}


def train(arm: str, axes: Mapping[str, int], epochs: int, root: Path) -> Iterator[published.Record]:
    batch = axes["train.batch_size"]
    images, labels = (whole[5000:] for whole in load(root, "train"))
    network = Network(arm, batch)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    yield {"epoch": 0, "split": "test", "mode": "eval", **test(network, root)}
    for epoch in range(1, (epochs if batch > 4 else min(epochs, 1)) + 1):
        total = 0.0
        for rows in torch.randperm(len(labels)).split(batch):
            loss = F.cross_entropy(network(images[rows]), labels[rows])
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            total += loss.item() * len(rows)
        yield {"epoch": epoch, "split": "train", "mode": "running", "nll": total / len(labels)}
        yield {"epoch": epoch, "split": "test", "mode": "eval", **test(network, root)}


if __name__ == "__main__":
    title = "LN Fig. 6 by an implementation of its own"
    sys.exit(published.main(__doc__, "mnist", title, "ln2016/fig6", CELLS, 3, train))
