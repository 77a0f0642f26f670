"""Our training loop against a bare one: python scripts/bench/loop.py [--rounds N] [--output DIR]

Bare: plain PyTorch modules, fused Adam, `loss.item()` checked before the update, batches by index; nothing else. Ours:
`normbench.train.loop.train` as `normbench train` runs it, with its sites, progress and what checkpoints fall into an
epoch; evaluation and log come after the steps that are timed, and a bare loop has neither. Same weights, same batches,
made-up data of the real size; that both compute the same is checked on the loss of every epoch. Ours flushes denormal
numbers at every update, the bare one keeps them. LeNet-5: our loop also sums the training
error and has Keras' Adam, the bare one neither.
"""

from __future__ import annotations

import json
import math
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import harness
import torch
import torch.nn.functional as F
from torch import nn

from normbench.config.plan import train_specs
from normbench.core.streams import stream
from normbench.data import Dataset
from normbench.data.examples import Split
from normbench.models import base
from normbench.runs.directory import RunDirectory
from normbench.train import loop
from normbench.train.train_one import ensure_run

FEATURES, CLASSES, HIDDEN = 784, 10, 1000
# batch size -> steps of an epoch, which is a round: about a second
STEPS = {"mnist_mlp": {128: 40, 4: 300}, "lenet5": {25: 100, 1: 500}}
SHAPE = {"mnist_mlp": (FEATURES,), "lenet5": (32, 32, 3)}
GOALS = {"mnist_mlp": 1.05, "lenet5": 1.1}


def bare_mlp(norm: str) -> nn.Sequential:
    """784-1000-1000-10 as anybody would write it; a normalizer's shift takes the place of the bias."""

    def block(inputs: int) -> list[nn.Module]:
        kind = {"none": None, "batch": nn.BatchNorm1d, "layer": nn.LayerNorm}[norm]
        norms = [] if kind is None else [kind(HIDDEN)]
        return [nn.Linear(inputs, HIDDEN, bias=kind is None), *norms, nn.ReLU()]

    return nn.Sequential(*block(FEATURES), *block(HIDDEN), nn.Linear(HIDDEN, CLASSES))


class Permute(nn.Module):
    def __init__(self, *axes: int) -> None:
        super().__init__()
        self.axes = axes

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.permute(self.axes)


class ChannelNorm(nn.LayerNorm):
    """Over the channels of a picture, position by position."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def bare_lenet5(norm: str) -> nn.Sequential:
    """BLN's LeNet-5 as anybody would write it who has read that channels last is faster."""
    kinds: Any = {"none": None, "batch": (nn.BatchNorm2d, nn.BatchNorm1d), "layer": (ChannelNorm, nn.LayerNorm)}[norm]

    def block(layer: nn.Conv2d | nn.Linear) -> list[nn.Module]:
        conv = isinstance(layer, nn.Conv2d)
        norms = [] if kinds is None else [kinds[0](layer.out_channels) if conv else kinds[1](layer.out_features)]
        return [layer, nn.Tanh(), *([nn.AvgPool2d(2)] if conv else []), *norms]

    return nn.Sequential(
        Permute(0, 3, 1, 2),
        *block(nn.Conv2d(3, 6, 5, padding=2)),
        *block(nn.Conv2d(6, 16, 5)),
        Permute(0, 2, 3, 1),
        nn.Flatten(),
        *block(nn.Linear(576, 120)),
        *block(nn.Linear(120, 84)),
        nn.Linear(84, CLASSES),
    )


BARE = {"mnist_mlp": bare_mlp, "lenet5": bare_lenet5}


class Bare:
    """The bare loop; `epoch` trains one and returns its mean loss and seconds."""

    def __init__(self, model: nn.Module, data: Split, weights: list[torch.Tensor], lr: float) -> None:
        self.data, self.model = data, model
        with torch.no_grad():
            for parameter, value in zip(self.model.parameters(), weights, strict=True):
                parameter.copy_(value)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=lr, fused=True)

    def epoch(self, order: torch.Tensor, batch_size: int) -> tuple[float, float]:
        model, optimizer, inputs, targets = self.model, self.optimizer, self.data["inputs"], self.data["targets"]
        total = 0.0
        started = time.perf_counter()
        model.train()
        for index in order.split(batch_size):
            loss = F.cross_entropy(model(inputs[index]), targets[index])
            value = loss.item()
            if not math.isfinite(value):
                raise SystemExit("the bare loop diverged")
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            total += value * len(index)
        return total / len(order), time.perf_counter() - started


def compare(model: str, norm: str, batch_size: int, rounds: int, folder: Path) -> harness.Row:
    """One epoch of ours, one of the bare loop, and so on; the first of each is not counted."""
    steps = STEPS[model][batch_size]  # of an epoch of the data made up here
    words = [f"model={model}", f"norm={norm}", f"train.batch_size={batch_size}", f"train.steps={(rounds + 1) * steps}"]
    if (
        model == "lenet5"
    ):  # so small an eps that it does not matter where it stands; a rate at which rounding stays small
        words += ["optim.eps=1e-12", "optim.lr=1e-4"]
    (spec,) = train_specs(words, multirun=False)
    count = steps * batch_size
    draw = stream(1, "bench")
    inputs = torch.from_numpy(draw.random((count, *SHAPE[model]), dtype="float32"))
    split = Split(inputs=inputs, targets=torch.from_numpy(draw.integers(0, CLASSES, count)))
    few = Split(inputs=inputs[:batch_size], targets=split["targets"][:batch_size])
    made_up = Dataset("made up", {"train": split, "valid": few, "test": few})
    ours = base.build(spec.config, spec.sites)
    bare = Bare(BARE[model](norm), split, _in_order(ours), spec.config["optim"]["lr"])
    run = RunDirectory(folder / f"{model}-{norm}-{batch_size}")
    seconds: list[float] = []
    losses: list[float] = []

    def listen(event: dict[str, Any]) -> None:
        ended = len((run.path / "timing.jsonl").read_text().splitlines())
        if ended > len(seconds):  # an epoch's end; a checkpoint is told too
            shuffle = ended if spec.config["train"]["reshuffle"] else 1
            order = torch.from_numpy(stream(spec.seed, "order", shuffle).permutation(count))
            loss, took = bare.epoch(order, batch_size)
            losses.append(loss)
            seconds.append(took)

    load, loop.datasets.load = loop.datasets.load, lambda config, seed: made_up
    try:
        ensure_run(spec, run, listen)
    finally:
        loop.datasets.load = load
    timed = [json.loads(line)["train_seconds"] for line in (run.path / "timing.jsonl").read_text().splitlines()]
    logged = [json.loads(line) for line in run.curve.read_text().splitlines()]
    running = [record["nll"] for record in logged if record["mode"] == "running"]
    if not all(math.isclose(a, b, rel_tol=1e-3) for a, b in zip(running, losses, strict=True)):
        raise SystemExit(
            f"{model}, {norm}, batch {batch_size}: the two loops compute different losses: {running} {losses}"
        )
    case = f"{model}, batch {batch_size}, {norm}"
    return harness.row(case, timed[1:], seconds[1:], steps, GOALS[model])


def _in_order(model: nn.Module) -> list[torch.Tensor]:
    """Our parameters in the order of the bare model's: of a layer its weights, then its normalizer's gain and bias."""
    tensors = dict(model.named_parameters())
    layers = dict.fromkeys(name.rsplit(".", 2)[0] for name in tensors)
    return [tensors[name] for layer in layers for name in sorted(tensors, key=_rank) if name.startswith(f"{layer}.")]


def _rank(name: str) -> tuple[bool, bool]:
    return "linear" not in name, name.endswith("bias")


def rows(rounds: int) -> Iterator[harness.Row]:
    with tempfile.TemporaryDirectory() as scratch:
        for model, sizes in STEPS.items():
            for batch_size in sizes:
                for norm in ("none", "batch", "layer"):
                    if norm != "batch" or batch_size > 1:  # of one value torch has no batch normalization
                        yield compare(model, norm, batch_size, rounds, Path(scratch))


if __name__ == "__main__":
    title = "Training step: our loop / a bare PyTorch loop (784-1000-1000-10 and LeNet-5, fused Adam)"
    harness.main(__doc__, "loop", title, 21, rows)
