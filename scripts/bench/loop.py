"""Our training loop against a bare one: python scripts/bench/loop.py [--rounds N] [--output DIR]

Bare: plain PyTorch modules, fused Adam, `loss.item()` checked before the update, batches by index; nothing else. Ours:
`normbench.train.loop.train` as `normbench train` runs it, with its sites, progress and what checkpoints fall into an
epoch; evaluation and log come after the steps that are timed, and a bare loop has neither. Same weights, same batches,
made-up data of MNIST's size; that both compute the same is checked on the loss of every epoch.
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
from normbench.data import Dataset, Split
from normbench.models import base
from normbench.runs.store import RunDirectory
from normbench.streams import stream
from normbench.train import loop

FEATURES, CLASSES, HIDDEN = 784, 10, 1000
STEPS = {128: 40, 4: 300}  # of an epoch, which is a round: about a second
GOAL = 1.05


def bare_model(norm: str) -> nn.Sequential:
    """784-1000-1000-10 as anybody would write it; a normalizer's shift takes the place of the bias."""

    def block(inputs: int) -> list[nn.Module]:
        kind = {"none": None, "batch": nn.BatchNorm1d, "layer": nn.LayerNorm}[norm]
        norms = [] if kind is None else [kind(HIDDEN)]
        return [nn.Linear(inputs, HIDDEN, bias=kind is None), *norms, nn.ReLU()]

    return nn.Sequential(*block(FEATURES), *block(HIDDEN), nn.Linear(HIDDEN, CLASSES))


class Bare:
    """The bare loop; `epoch` trains one and returns its mean loss and seconds."""

    def __init__(self, norm: str, data: Split, weights: list[torch.Tensor], lr: float) -> None:
        self.data, self.model = data, bare_model(norm)
        with torch.no_grad():
            for parameter, value in zip(self.model.parameters(), weights, strict=True):
                parameter.copy_(value)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=lr, fused=True)

    def epoch(self, order: torch.Tensor, batch_size: int) -> tuple[float, float]:
        model, optimizer, inputs, targets = self.model, self.optimizer, self.data.inputs, self.data.targets
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


def compare(norm: str, batch_size: int, rounds: int, folder: Path) -> harness.Row:
    """One epoch of ours, one of the bare loop, and so on; the first of each is not counted."""
    words = ["model=mnist_mlp", f"norm={norm}", f"train.batch_size={batch_size}", f"train.epochs={rounds + 1}"]
    (spec,) = train_specs(words, multirun=False)
    count = STEPS[batch_size] * batch_size
    draw = stream(1, "bench")
    inputs = torch.from_numpy(draw.random((count, FEATURES), dtype="float32"))
    split = Split(inputs, torch.from_numpy(draw.integers(0, CLASSES, count)))
    few = Split(split.inputs[:batch_size], split.targets[:batch_size])
    made_up = Dataset("mnist", {"train": split, "valid": few, "test": few}, CLASSES, FEATURES)
    ours = base.build(spec.config, spec.sites())
    bare = Bare(norm, split, _in_order(ours), spec.config["optim"]["lr"])
    run = RunDirectory(folder / f"{norm}-{batch_size}")
    seconds: list[float] = []
    losses: list[float] = []

    def listen(event: dict[str, Any]) -> None:
        ended = len((run.path / "timing.jsonl").read_text().splitlines())
        if ended > len(seconds):  # an epoch's end; a checkpoint is told too
            order = torch.from_numpy(stream(spec.seed, "order", ended).permutation(count))
            loss, took = bare.epoch(order, batch_size)
            losses.append(loss)
            seconds.append(took)

    load, loop.datasets.load = loop.datasets.load, lambda config, seed: made_up
    try:
        loop.train(spec, run, listen)
    finally:
        loop.datasets.load = load
    timed = [json.loads(line)["train_seconds"] for line in (run.path / "timing.jsonl").read_text().splitlines()]
    logged = [json.loads(line) for line in run.curve.read_text().splitlines()]
    running = [record["nll"] for record in logged if record["mode"] == "running"]
    if not all(math.isclose(a, b, rel_tol=1e-3) for a, b in zip(running, losses, strict=True)):
        raise SystemExit(f"{norm}, batch {batch_size}: the two loops compute different losses: {running} {losses}")
    case = f"batch {batch_size}, {norm}"
    return harness.row(case, timed[1:], seconds[1:], STEPS[batch_size], GOAL)


def _in_order(model: nn.Module) -> list[torch.Tensor]:
    """Our parameters in the order of the bare model's: of a layer its weights, then its normalizer's gain and bias."""
    found = dict(model.named_parameters())
    layers = dict.fromkeys(name.rsplit(".", 2)[0] for name in found)
    return [found[name] for layer in layers for name in sorted(found, key=_rank) if name.startswith(f"{layer}.")]


def _rank(name: str) -> tuple[bool, bool]:
    return "linear" not in name, name.endswith("bias")


def rows(rounds: int) -> Iterator[harness.Row]:
    with tempfile.TemporaryDirectory() as scratch:
        for batch_size in STEPS:
            for norm in ("none", "batch", "layer"):
                yield compare(norm, batch_size, rounds, Path(scratch))


if __name__ == "__main__":
    title = "Training step: our loop / a bare PyTorch loop (784-1000-1000-10, fused Adam)"
    harness.main(__doc__, "loop", title, 21, rows)
