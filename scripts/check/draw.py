"""LN Fig. 4, trained anew: NORMBENCH_DATA=... python scripts/check/draw.py [--epochs N] [--seed N] [--output DIR]

DRAW with 10 glimpses of binarized MNIST, written from LN 6.4 and eq. 29-31, from Gregor et al. 2015 and from the
reading of jbornschein/draw that our protocol has, not from normbench: LSTMs of 256 without peepholes, z of 100, windows
of 2 x 2 and 5 x 5, weights of N(0, 0.01^2); Adam 1e-3, batches of 128, gradients of a norm of 10 at most. LN of the
cell alone, eps beside the deviation as in Torch 7; WN of every matrix, a gain that begins at the norm.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path

import equal
import numpy as np
import published
import torch
import torch.nn.functional as F
from torch import Tensor

SIDE, UNITS, LATENT, GLIMPSES, READ, WRITE = 28, 256, 100, 10, 2, 5
MATRICES = {"window.read": 5, "window.write": 5, "latent": 2 * LATENT, "patch": WRITE**2}
LSTMS = {"encoder": 2 * READ**2 + UNITS, "decoder": LATENT}
ARMS = ("none", "ln", "wn")


def initial(arm: str) -> dict[str, Tensor]:
    p = {}
    for name, outputs in MATRICES.items():
        p |= {f"{name}.linear.weight": torch.randn(outputs, UNITS) * 0.01, f"{name}.linear.bias": torch.zeros(outputs)}
        if arm == "wn":
            p[f"{name}.norm.gain"] = p[f"{name}.linear.weight"].norm(dim=1)
    for name, inputs in LSTMS.items():
        cell = f"{name}.cells.0"
        p[f"{cell}.bias"] = torch.zeros(4 * UNITS)
        for place, weight, size in (("input", "weight_ih", inputs), ("hidden", "weight_hh", UNITS)):
            p[f"{cell}.{weight}"] = torch.randn(4 * UNITS, size) * 0.01
            if arm == "wn":
                p[f"{cell}.norms.{place}.gain"] = p[f"{cell}.{weight}"].norm(dim=1)
        if arm == "ln":
            p |= {f"{cell}.norms.cell.gain": torch.ones(UNITS), f"{cell}.norms.cell.bias": torch.zeros(UNITS)}
    return p


class Lstm:
    """(x, h, c) -> (h, c): eq. 17-19 without normalization, eq. 29-31 with LN."""

    def __init__(self, arm: str, p: equal.Tensors, name: str) -> None:
        cell = f"{name}.cells.0"
        self.of_input = normalized(p[f"{cell}.weight_ih"], p.get(f"{cell}.norms.input.gain"))
        self.of_state = normalized(p[f"{cell}.weight_hh"], p.get(f"{cell}.norms.hidden.gain"))
        self.bias = p[f"{cell}.bias"]
        self.norm = (p[f"{cell}.norms.cell.gain"], p[f"{cell}.norms.cell.bias"]) if arm == "ln" else None

    def __call__(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        f, i, o, g = (x @ self.of_input.T + h @ self.of_state.T + self.bias).chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        normed = c
        if self.norm:
            centred = c - c.mean(1, keepdim=True)
            normed = self.norm[0] * centred / (centred.square().mean(1, keepdim=True).sqrt() + 1e-5) + self.norm[1]
        return o.sigmoid() * normed.tanh(), c


def normalized(v: Tensor, gain: Tensor | None) -> Tensor:
    """w = g v / ||v|| of each unit (Salimans and Kingma 2016)."""
    return v if gain is None else (gain / v.square().sum(1).sqrt())[:, None] * v


def filters(given: Tensor, n: int) -> tuple[Tensor, Tensor, Tensor]:
    """F_y and F_x, (B, n, 28), and the intensity (B, 1, 1)."""
    of_y, of_x, log_stride, log_variance, log_intensity = given.unbind(1)
    stride, variance = (SIDE - 1) / (n - 1) * log_stride.exp(), log_variance.exp()
    steps, pixels, matrices = torch.arange(n) - n / 2 + 0.5, torch.arange(SIDE), []
    for place in (of_y, of_x):
        means = ((place + 1) / 2 * SIDE)[:, None] + steps * stride[:, None]
        values = (-(pixels - means[:, :, None]).square() / (2 * variance[:, None, None])).exp()
        matrices.append(values / (values.sum(2, keepdim=True) + 1e-4))
    return matrices[0], matrices[1], log_intensity.exp()[:, None, None]


def bound(arm: str, p: equal.Tensors, x: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """The bound and its KL part (B,), with noise (B, glimpses, z)."""
    encoder, decoder = Lstm(arm, p, "encoder"), Lstm(arm, p, "decoder")
    maps = {
        name: (normalized(p[f"{name}.linear.weight"], p.get(f"{name}.norm.gain")), p[f"{name}.linear.bias"])
        for name in MATRICES
    }

    def linear(name: str, h: Tensor) -> Tensor:
        return h @ maps[name][0].T + maps[name][1]

    count = len(x)
    canvas, kl = x.new_zeros(count, SIDE**2), x.new_zeros(count)
    h, c, h_dec, c_dec = (x.new_zeros(count, UNITS) for _ in range(4))
    for drawn in noise.unbind(1):
        rows, columns, intensity = filters(linear("window.read", h_dec), READ)
        glimpses = [
            (intensity * (rows @ image.view(-1, SIDE, SIDE) @ columns.transpose(1, 2))).flatten(1)
            for image in (x, x - canvas.sigmoid())
        ]
        h, c = encoder(torch.cat([*glimpses, h_dec], 1), h, c)
        mean, log_sigma = linear("latent", h).split(LATENT, 1)
        kl = kl + (0.5 * ((2 * log_sigma).exp() + mean.square()) - log_sigma - 0.5).sum(1)
        h_dec, c_dec = decoder(mean + log_sigma.exp() * drawn, h_dec, c_dec)
        rows, columns, intensity = filters(linear("window.write", h_dec), WRITE)
        patch = linear("patch", h_dec).view(-1, WRITE, WRITE)
        canvas = canvas + (rows.transpose(1, 2) @ patch @ columns / intensity).flatten(1)
    return F.binary_cross_entropy_with_logits(canvas, x, reduction="none").sum(1) + kl, kl


def update(arm: str, p: equal.Tensors, batch: equal.Tensors, drawn: Sequence[Tensor]) -> Tensor:
    return bound(arm, p, batch["inputs"], drawn[0])[0].mean()


@cache
def load(root: Path) -> dict[str, Tensor]:
    """Pixels (N, 784) of each part."""
    with np.load(root / "binarized_mnist" / "binarized_mnist.npz") as file:
        return {part: torch.from_numpy(np.unpackbits(file[part], 1, SIDE**2).astype(np.float32)) for part in file}


@torch.no_grad()
def test(arm: str, p: equal.Tensors, parts: Mapping[str, Tensor], epoch: int) -> Iterator[published.Record]:
    """Of every fifth picture, one sample of z each."""
    for part in ("valid", "test"):
        chunks = parts[part][::5].split(500)
        bounds = [bound(arm, p, x, torch.randn(len(x), GLIMPSES, LATENT)) for x in chunks]
        means = [torch.cat(values).mean().item() for values in zip(*bounds, strict=True)]
        yield {"epoch": epoch, "split": part, "mode": "eval", "bound": means[0], "kl": means[1]}


def train(arm: str, axes: Mapping[str, int], epochs: int, root: Path) -> Iterator[published.Record]:
    parts = load(root)
    p = {name: weight.requires_grad_() for name, weight in initial(arm).items()}
    optimizer = torch.optim.Adam(p.values(), lr=1e-3)
    yield from test(arm, p, parts, 0)
    pictures = parts["train"]
    for epoch in range(1, epochs + 1):
        sums = [0.0, 0.0]
        for rows in torch.randperm(len(pictures)).split(128):
            bounds = bound(arm, p, pictures[rows], torch.randn(len(rows), GLIMPSES, LATENT))
            bounds[0].mean().backward()
            torch.nn.utils.clip_grad_norm_(p.values(), 10)
            optimizer.step()
            optimizer.zero_grad()
            sums = [total + values.sum().item() for total, values in zip(sums, bounds, strict=True)]
        means = [total / len(pictures) for total in sums]
        yield {"epoch": epoch, "split": "train", "mode": "running", "bound": means[0], "kl": means[1]}
        yield from test(arm, p, parts, epoch)


if __name__ == "__main__":
    title = "LN Fig. 4 by an implementation of its own"
    cells: list[published.Cell] = [(arm, {}) for arm in ARMS]
    equals = partial(equal.compare, "ln2016/fig4", "reduced", ARMS, initial, update)
    sys.exit(published.main(__doc__, "draw", title, "ln2016/fig4", cells, 1, train, fidelity="reduced", equals=equals))
