"""The recall task, trained anew: python scripts/check/recall.py [--epochs N] [--seed N] [--output DIR]

Which of eight symbols stood where the marker was? An LSTM of 64 units, forget bias 1, and a softmax on its last output,
written from LN eq. 20-22 and from Cooijmans et al. 2016, not from normbench: Glorot uniform weights, Adam 1e-3, 5 000
sequences of 10 or 40 steps, batches of 64, and of 4 for two epochs. LN over the four gates' summed inputs, of input and
of state, and over the cell; BN per step at the same places, gains of 0.1, a shift at the cell alone.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path

import published
import torch
import torch.nn.functional as F
from formulas import BatchNorm, LayerNorm
from torch import Tensor, nn

SYMBOLS, UNITS, TRAINED, TESTED = 8, 64, 5000, 1000
CELLS = [
    (arm, {"data.length": length, "train.batch_size": batch})
    for length, batch, arm in product((10, 40), (64, 4), ("none", "ln", "bn"))
]


def draw(count: int, length: int) -> tuple[Tensor, Tensor]:
    """One-hot symbols with the marker's bit (count, length, 9), and the marked symbols."""
    symbols, places, rows = torch.randint(SYMBOLS, (count, length)), torch.randint(length, (count,)), range(count)
    x = torch.cat([F.one_hot(symbols, SYMBOLS), torch.zeros(count, length, 1)], -1)
    x[rows, places, SYMBOLS] = 1
    return x, symbols[rows, places]


def glorot(outputs: int, inputs: int) -> nn.Parameter:
    bound = (6 / (inputs + outputs)) ** 0.5
    return nn.Parameter(torch.empty(outputs, inputs).uniform_(-bound, bound))


class Network(nn.Module):
    def __init__(self, arm: str, length: int) -> None:
        super().__init__()
        self.of_input, self.of_state = glorot(4 * UNITS, SYMBOLS + 1), glorot(4 * UNITS, UNITS)
        self.bias = nn.Parameter(torch.zeros(4 * UNITS))
        self.out, self.out_bias = glorot(SYMBOLS, UNITS), nn.Parameter(torch.zeros(SYMBOLS))
        self.arm, self.norms = arm, nn.ModuleDict()
        for place, d in (("input", 4 * UNITS), ("state", 4 * UNITS), ("cell", UNITS)):
            if arm == "bn":
                self.norms[place] = BatchNorm(d, 1e-5, 0.1, steps=length, gain=0.1, shift=place == "cell")
            elif arm == "ln":
                self.norms[place] = LayerNorm(d, 1e-5)

    def norm(self, place: str, x: Tensor, t: int) -> Tensor:
        if self.arm == "none":
            return x
        normalized: Tensor = self.norms[place](x, t) if self.arm == "bn" else self.norms[place](x)
        return normalized

    def forward(self, x: Tensor) -> Tensor:
        h = c = torch.zeros(len(x), UNITS)
        for t in range(x.shape[1]):
            from_input = self.norm("input", x[:, t] @ self.of_input.T, t)
            gates = self.norm("state", h @ self.of_state.T, t) + from_input + self.bias
            f, i, o, g = gates.chunk(4, -1)
            c = torch.sigmoid(f + 1) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(self.norm("cell", c, t))
        return h @ self.out.T + self.out_bias


@torch.no_grad()
def test(network: Network, parts: Mapping[str, tuple[Tensor, Tensor]], epoch: int) -> Iterator[published.Record]:
    network.eval()
    for name, (x, targets) in parts.items():
        logits = network(x)
        values = {"nll": F.cross_entropy(logits, targets).item()}
        values["error"] = (logits.argmax(1) != targets).double().mean().item()
        yield {"epoch": epoch, "split": name, "mode": "eval", **values}
    network.train()


def train(arm: str, axes: Mapping[str, int], epochs: int, root: Path | None) -> Iterator[published.Record]:
    length, batch = axes["data.length"], axes["train.batch_size"]
    x, targets = draw(TRAINED, length)
    parts = {"test": draw(TESTED, length), "test 4x": draw(TESTED, 4 * length)}
    network = Network(arm, length)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    yield from test(network, parts, 0)
    for epoch in range(1, (epochs if batch > 4 else min(epochs, 2)) + 1):
        total = 0.0
        for rows in torch.randperm(TRAINED).split(batch):
            loss = F.cross_entropy(network(x[rows]), targets[rows])
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            total += loss.item() * len(rows)
        yield {"epoch": epoch, "split": "train", "mode": "running", "nll": total / TRAINED}
        yield from test(network, parts, epoch)


if __name__ == "__main__":
    title = "Recall of a marked symbol by an implementation of its own"
    sys.exit(published.main(__doc__, "recall", title, "ln2016/recall", CELLS, 4, train))
