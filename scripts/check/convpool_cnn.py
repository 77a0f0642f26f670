"""ConvPool-CNN-C beside plain PyTorch: python scripts/check/convpool_cnn.py

Twenty updates of every arm of `rms2019/table10` at its smallest form (`tests/smallest.py`), without noise and dropout,
in float64, from equal weights and on equal batches. The other side is written from appendix A.4 of Zhang and Sennrich
2019, the layer in the README of their code and train.py of Salimans and Kingma's, not from normbench: torch's own
convolutions, batch, instance and group normalization, RMSNorm by its formula, Adam by its formula. No loss may differ
by more than 1e-9 of its size. Ends with code 1 where something differs.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
from smallest import batches, built, small

from normbench.config.plan import experiment
from normbench.models import base as models
from normbench.train import optim

UPDATES, BOUND, EPS = 20, 1e-9, 1e-6


class RMS(nn.Module):
    """The authors' `RMSNormLayer`: over `axes` of an image (B, C, H, W), over the features of a vector."""

    def __init__(self, channels: int, axes: tuple[int, ...]) -> None:
        super().__init__()
        self.axes = axes
        self.weight, self.bias = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        images = x.dim() == 4
        y = x / torch.sqrt(torch.mean(x**2, self.axes if images else (1,), keepdim=True) + EPS)
        shape = (1, -1, 1, 1) if images else (1, -1)
        return y * self.weight.view(shape) + self.bias.view(shape)


def norm(arm: str, channels: int, images: bool) -> nn.Module:
    if arm == "none":
        return nn.Identity()
    if arm == "bn":
        return (nn.BatchNorm2d if images else nn.BatchNorm1d)(channels, eps=EPS)
    if arm.startswith("rms"):
        return RMS(channels, (2, 3) if arm == "rms-hw" else (1, 2, 3))
    if arm == "ln-hw" and images:
        return nn.InstanceNorm2d(channels, eps=EPS, affine=True)
    return nn.GroupNorm(1, channels, eps=EPS)


def plain(arm: str, width: int, classes: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    inputs = 3
    for number in range(1, 10):
        outputs = width if number <= 3 else 2 * width
        kernel, padding = (3, int(number < 7)) if number < 8 else (1, 0)
        layers += [nn.Conv2d(inputs, outputs, kernel, padding=padding, bias=arm == "none")]
        layers += [norm(arm, outputs, True), nn.LeakyReLU(0.1)]
        layers += [nn.MaxPool2d(2)] if number in (3, 6) else []
        inputs = outputs
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes, bias=arm == "none")]
    return nn.Sequential(*layers, norm(arm, classes, False)).double()


def ours(network: nn.Sequential, given: list[dict[str, Tensor]], lr: float) -> list[float]:
    parameters, losses = list(network.parameters()), []
    means, squares = ([torch.zeros_like(p) for p in parameters] for _ in range(2))
    for number, batch in enumerate(given, 1):
        loss = F.cross_entropy(network(batch["inputs"].permute(0, 3, 1, 2)), batch["targets"])
        gradients = torch.autograd.grad(loss, parameters)
        for p, g, m, v in zip(parameters, gradients, means, squares, strict=True):
            m.mul_(0.9).add_(g, alpha=0.1)
            v.mul_(0.999).add_(g**2, alpha=0.001)
            p.data -= lr * (m / (1 - 0.9**number)) / ((v / (1 - 0.999**number)).sqrt() + 1e-8)
        losses.append(loss.item())
    return losses


def compare(arm: str, words: list[str]) -> float:
    """The largest relative difference of a loss."""
    spec = small("convpool_cnn", *words, "model.noise=0.0", "model.dropout=0.0")
    network = built(spec).double().train()
    other = plain(arm, spec.config["model"]["width"], spec.config["data"]["declares"]["classes"])
    maps = [layer for layer in other if isinstance(layer, nn.Conv2d | nn.Linear)]
    for layer, copy in zip([*network.conv, network.logits], maps, strict=True):
        copy.load_state_dict(layer.linear.state_dict())
    given = [{**batch, "inputs": batch["inputs"].double()} for batch in batches(spec, UPDATES)]
    optimizer, theirs = optim.build(spec.config["optim"], network), []
    for number, batch in enumerate(given):
        with models.update(network, 1, number):
            loss = network(**batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        theirs.append(loss.item())
    pairs = zip(ours(other, given, spec.config["optim"]["lr"]), theirs, strict=True)
    return max(abs(a - b) / abs(b) for a, b in pairs)


def main() -> int:
    failed = 0
    for arm, words in experiment("rms2019/table10").arms.items():
        difference = compare(arm, list(words))
        failed += not difference <= BOUND
        print(f"{arm:8} {UPDATES} updates: losses differ by {difference:.1e} at most", flush=True)
    print("DIFFERENT" if failed else f"equal (bound {BOUND:g})")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
