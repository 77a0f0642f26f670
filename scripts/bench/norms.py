"""Normalizers against the built-ins they are made of: python scripts/bench/norms.py [--rounds N] [--output DIR]

Forward and backward of one layer, float32, channels last. batch_layer: against per-position BatchNorm and last-axis
LayerNorm, each once, population sums of the epoch included on our side, and beside it a Python function with a backward
pass that computes nothing: the limit of anything written as one. rms: against `nn.RMSNorm`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import harness
import torch
from torch import Tensor, nn

from normbench.battery.cost import interleave
from normbench.norms import base
from normbench.norms.sites import Choice, Site

SHAPES = {(25, 16, 16, 6): 0.7, (25, 80, 128): 0.6, (128, 1000): 0.8, (4, 1000): 1.06}  # and batch_layer's goals
TARGET = 0.02  # seconds of a round and side
RMS_GOAL = 1.5


class BothNorms(nn.Module):
    """x -> BN over the samples per position and feature, plus LN over the features; nothing of their weights."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.batch = nn.BatchNorm1d(int(torch.tensor(shape[1:]).prod()))
        self.layer = nn.LayerNorm(shape[-1])

    def forward(self, x: Tensor) -> Tensor:
        return self.batch(x.reshape(len(x), -1)).view_as(x) + self.layer(x)


class Nothing(nn.Module):
    """What an autograd function of Python with a gain and a shift costs before it computes anything."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.gain, self.shift = nn.Parameter(torch.ones(features)), nn.Parameter(torch.zeros(features))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = Empty.apply(x, self.gain, self.shift)
        return y


class Empty(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, gain: Tensor, shift: Tensor) -> Tensor:
        ctx.save_for_backward(x, gain)
        return torch.empty_like(x)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, ...]:
        x, gain = ctx.saved_tensors
        return torch.empty_like(x), torch.empty_like(gain), torch.empty_like(gain)


def site(shape: tuple[int, ...]) -> Site:
    axes = {2: ("batch", "feature"), 3: ("batch", "time", "feature"), 4: ("batch", "space", "space", "feature")}
    space = tuple(shape[1:-1]) if len(shape) == 4 else ()
    return Site("bench", ("pre_activation", "post_activation"), axes[len(shape)], shape[-1], space)


def side(module: nn.Module, x: Tensor, dy: Tensor, repeats: int) -> Callable[[], None]:
    module.train()

    def run() -> None:
        for _ in range(repeats):
            x.grad = None
            module.zero_grad()
            module(x).backward(dy)

    return run


def compare(name: str, shape: tuple[int, ...], rounds: int) -> Iterator[harness.Row]:
    generator = torch.Generator().manual_seed(1)
    x, dy = (torch.randn(shape, generator=generator) for _ in range(2))
    x.requires_grad_()
    ours = base.build(site(shape), Choice(name, "pre_activation", {}, False, True, 1))
    reference = BothNorms(shape) if name == "batch_layer" else nn.RMSNorm(shape[-1])
    once = min(sum(interleave({"x": side(reference, x, dy, 10)}, 5)["x"]) / 50, TARGET)
    repeats = max(1, int(TARGET / once))
    modules = {"ours": ours, "reference": reference}
    if name == "batch_layer":
        modules["nothing"] = Nothing(shape[-1])
    sides = {which: side(module, x, dy, repeats) for which, module in modules.items()}
    seconds = interleave(sides, rounds, 3)
    sizes = "×".join(map(str, shape))
    goal = SHAPES[shape] if name == "batch_layer" else RMS_GOAL
    yield harness.row(f"{name} {sizes}", seconds["ours"], seconds["reference"], repeats, goal)
    if "nothing" in seconds:
        yield harness.row(f"nothing computed {sizes}", seconds["nothing"], seconds["reference"], repeats)


def rows(rounds: int) -> Iterator[harness.Row]:
    for name in ("batch_layer", "rms"):
        for shape in SHAPES:
            yield from compare(name, shape, rounds)


def reasons(rows: Sequence[harness.Row]) -> Sequence[str]:
    missed = any(row.goal is not None and row.ratio > row.goal for row in rows)
    return [
        "Of a few thousand numbers the call takes the time: `nothing computed` is a function in Python with a backward "
        "pass and nothing in it. Rows of 6 features fill less than half of a vector of 16."
    ] * missed


if __name__ == "__main__":
    title = "Normalizers, forward and backward: ours / the built-ins that do the same work"
    harness.main(__doc__, "norms", title, 51, rows, reasons)
