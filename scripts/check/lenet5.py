"""BLN Fig. 4, trained anew: NORMBENCH_DATA=... python scripts/check/lenet5.py [--epochs N] [--seed N] [--output DIR]

LeNet-5 on 20 % of CIFAR-10, written from BLN 4.1 and its authors' code, not from normbench: two convolutions of 5 x 5,
tanh, means of 2 x 2, dense layers of 120 and 84, a normalizer after each; tf.keras' Adam 2e-3, 9 000 images in the
same order in every epoch, batches of 25 and of 1. BN and LN with tf.keras' defaults; BLN is also evaluated with
statistics of the population.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import published
import pyarrow.parquet
import torch
import torch.nn.functional as F
from formulas import BatchLayerNorm, BatchNorm, KerasAdam, LayerNorm
from PIL import Image
from torch import Tensor, nn

CELLS = [(arm, {"train.batch_size": batch}) for batch, arm in product((25, 1), ("none", "bn", "ln", "bln"))]
# batch 1: the only one of the population's that works, one that is constant, one that is NaN (0 times infinity)
LETTERS = {25: ("TTFF", "TTTT"), 1: ("TFFF", "FFFT", "TTTT")}
LAYERS = ((6, 3, 5, 5), (16, 6, 5, 5), (120, 576), (84, 120), (10, 84))


@cache
def load(root: Path) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Training images (50 000, 3, 32, 32) and labels, test images and labels; values standardized one by one."""

    def part(name: str) -> tuple[np.ndarray, Tensor]:
        files = sorted((root / "cifar10" / "plain_text").glob(f"{name}-*.parquet"))
        rows = [row for file in files for row in pyarrow.parquet.read_table(file, columns=["img", "label"]).to_pylist()]
        images = np.stack([np.asarray(Image.open(io.BytesIO(row["img"]["bytes"])).convert("RGB")) for row in rows])
        return images.astype(np.float32), torch.tensor([row["label"] for row in rows])

    (images, labels), (test_images, test_labels) = part("train"), part("test")
    # of all 50 000, those for validation included
    mean, deviation = images.mean(0, dtype=np.float64), images.std(0, dtype=np.float64)
    scaled = [torch.from_numpy((x - mean) / deviation).float().permute(0, 3, 1, 2) for x in (images, test_images)]
    return scaled[0], labels, scaled[1], test_labels


def norm(arm: str, d: int, batch: int, conv: bool) -> nn.Module:
    if arm == "bln":
        return BatchLayerNorm(d, batch)
    if arm == "bn":  # tf.keras: momentum 0.99; of images it averages the unbiased variance, of vectors the biased
        return BatchNorm(d, 1e-3, 0.01, unbiased_running=conv)
    return LayerNorm(d, 1e-3) if arm == "ln" else nn.Identity()


class Network(nn.Module):
    def __init__(self, arm: str, batch: int) -> None:
        super().__init__()
        self.weights = nn.ParameterList(torch.empty(shape) for shape in LAYERS)
        self.biases = nn.ParameterList(torch.zeros(shape[0]) for shape in LAYERS)
        self.norms = nn.ModuleList(norm(arm, shape[0], batch, len(shape) == 4) for shape in LAYERS[:4])
        for weight in self.weights[:2]:
            nn.init.uniform_(weight, -(b := (6 / (25 * (weight.shape[0] + weight.shape[1]))) ** 0.5), b)
        for weight in self.weights[2:]:
            nn.init.orthogonal_(weight)

    def forward(self, x: Tensor) -> Tensor:
        w, b, norms = self.weights, self.biases, self.norms
        for layer, padding in ((0, 2), (1, 0)):
            x = F.avg_pool2d(torch.tanh(F.conv2d(x, w[layer], b[layer], padding=padding)), 2)
            x = norms[layer](x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        x = x.permute(0, 2, 3, 1).flatten(1)
        for layer in (2, 3):
            x = norms[layer](torch.tanh(x @ w[layer].T + b[layer]))
        return x @ w[4].T + b[4]


@torch.no_grad()
def test(network: Network, images: Tensor, labels: Tensor) -> dict[str, float]:
    network.eval()
    logits = torch.cat([network(part) for part in images.split(1000)])
    network.train()
    wrong = (logits.argmax(1) != labels).double()
    return {"nll": F.cross_entropy(logits, labels).item(), "error": wrong.mean().item()}


def train(arm: str, axes: Mapping[str, int], epochs: int, root: Path) -> Iterator[published.Record]:
    batch = axes["train.batch_size"]
    images, labels, test_images, test_labels = load(root)
    order = torch.randperm(len(test_labels))
    tested = test_images[order], test_labels[order]
    chosen = torch.randperm(len(labels))[:9000]
    images, labels = images[chosen], labels[chosen]
    network = Network(arm, batch)
    blns = [module for module in network.modules() if isinstance(module, BatchLayerNorm)]
    optimizer = KerasAdam(network.parameters(), 2e-3)
    yield {"epoch": 0, "split": "test", "mode": "eval", **test(network, *tested)}
    for epoch in range(1, epochs + 1):
        for bln in blns:
            bln.begin_epoch()
        total, wrong = 0.0, 0
        for x, y in zip(images.split(batch), labels.split(batch), strict=True):
            logits = network(x)
            loss = F.cross_entropy(logits, y)
            loss.backward()
            optimizer.step()
            total, wrong = total + loss.item() * len(y), wrong + int((logits.argmax(1) != y).sum())
        for bln in blns:
            bln.end_epoch()
        yield {"epoch": epoch, "split": "train", "mode": "running", "nll": total / 9000, "error": wrong / 9000}
        for letters in ("FFFF", *(LETTERS[batch] if blns else ())):
            for bln in blns:
                bln.letters = letters
            variant = {} if letters == "FFFF" else {"variant": {"configuration": letters}}
            yield {"epoch": epoch, "split": "test", "mode": "eval", **variant, **test(network, *tested)}
        for bln in blns:
            bln.letters = "FFFF"


if __name__ == "__main__":
    title = "BLN Fig. 4 by an implementation of its own"
    sys.exit(published.main(__doc__, "lenet5", title, "bln2022/fig4", CELLS, 3, train))
