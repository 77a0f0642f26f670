"""Today's normalizers in a network of one's own: python examples/swap.py, 10 s.

Who wins, and how sure it is:

    normbench import logs --as mine --yes
    normbench compare imported/mine --metric loss --split valid --better lower
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from normbench import swap


class Network(nn.Module):
    """A small Transformer that reads a sequence of numbers and answers with one."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Linear(1, 16), nn.Linear(16, 1)
        layer = nn.TransformerEncoderLayer(16, 2, dim_feedforward=32, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, num_layers=2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layers(self.embed(x.unsqueeze(-1))).mean(1)).squeeze(-1)


def loss(model: nn.Module, x: Tensor) -> Tensor:
    """The task: the largest number of each sequence."""
    return nn.functional.mse_loss(model(x), x.amax(1))


def main(folder: Path = Path("logs"), seeds: range = range(1, 6), steps: int = 60) -> None:
    folder.mkdir(exist_ok=True)
    for norm in ("layer", "dyt", "rms"):
        for seed in seeds:
            torch.manual_seed(seed)
            model = Network()
            if norm != "layer":  # the network has nn.LayerNorm by itself
                swap(model, nn.LayerNorm, norm)  # before the optimizer is made
            optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
            data, valid = torch.randn(steps, 32, 8), torch.randn(200, 8)
            with (folder / f"{norm}-seed{seed}.csv").open("w") as log:  # the arm and the seed are in the name
                print("step,valid_loss", file=log)
                for step, batch in enumerate(data, 1):
                    optimizer.zero_grad()
                    loss(model.train(), batch).backward()
                    optimizer.step()
                    if step % 10 == 0:
                        with torch.no_grad():
                            print(f"{step},{loss(model.eval(), valid).item()}", file=log)


if __name__ == "__main__":
    main()
