"""normbench from Python: python examples/library.py. Normalizers, an LSTM, runs as a table, a trained network."""

from __future__ import annotations

import subprocess
import sys

import torch
from torch import nn

from normbench import GRU, LSTM, NormbenchError, create_norm, epoch, load_model, load_runs


def classifier(norm: str) -> nn.Sequential:
    """Two layers with any normalizer between them."""
    return nn.Sequential(nn.Linear(8, 64), create_norm(norm, 64), nn.ReLU(), nn.Linear(64, 2))


def train(model: nn.Module, epochs: int = 5) -> float:
    """The accuracy on new examples after a few epochs of a made up problem: is the sum of the inputs positive?"""
    torch.manual_seed(1)
    x, new = torch.randn(200, 8), torch.randn(1000, 8)
    y = (x.sum(1) > 0).long()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(epochs):
        with epoch(model):  # its statistics are what batch_layer evaluates with
            for batch in torch.arange(200).split(25):
                loss = nn.functional.cross_entropy(model(x[batch]), y[batch])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    correct = model.eval()(new).argmax(1) == (new.sum(1) > 0)
    return correct.float().mean().item()


def main() -> None:
    for norm in ("none", "batch", "layer", "batch_layer", "examples/own_normalizer/norm/centre.yaml"):
        torch.manual_seed(0)
        print(f"{norm:<40} accuracy {train(classifier(norm)):.3f}")

    sentences = torch.randn(4, 12, 16)  # batch, time, features
    valid = torch.arange(12) < torch.tensor([12, 9, 5, 3])[:, None]
    outputs, (h, c) = LSTM(16, 32, norm="layer", forget_bias=1.0)(sentences, valid)
    print("LSTM with layer normalization:", tuple(outputs.shape), tuple(h.shape), tuple(c.shape))
    outputs, h = GRU(16, 32, norm={"name": "batch", "stats": "per_step"}, bidirectional=True)(sentences)
    print("GRU with batch normalization per step:", tuple(outputs.shape), tuple(h.shape))

    try:
        create_norm("layr", 64)
    except NormbenchError as error:
        print(error)

    runs = load_runs("ln2016/fig6", "train.batch_size=128", "control=")  # no control; smoke runs too, if there are some
    runs = runs[runs["source"] == "published"]
    print(runs.groupby("arm")["last test error"].agg(["mean", "std", "count"]).round(4).to_string())
    curves = load_runs("ln2016/fig6", "norm=layer", records=True)
    curves = curves[curves["run"].isin(runs["run"])]
    print(f"{len(curves)} records of {curves['run'].nunique()} runs")

    command = [sys.executable, "-m", "normbench", "train", "model=mnist_mlp", "data=digits", "norm=batch"]
    subprocess.run([*command, "model.hidden_sizes=[32]", "train.epochs=5"], check=True, capture_output=True)
    trained = load_runs("model=mnist_mlp", "data=digits", "norm=batch", "train.epochs=5").iloc[-1]
    network, config = load_model(trained["run"])  # its best weights by validation, in evaluation mode
    print(
        f"{config['norm']['name']} after {config['train']['epochs']} epochs:", network.predict(torch.rand(2, 64)).shape
    )


if __name__ == "__main__":
    main()
