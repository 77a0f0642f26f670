"""An implementation of its own beside normbench in float64: loss and gradient of one update, or two whole updates.

`theirs/arrays.py`, a process of its own, writes to a file what both start from, the weights, the batch and all that is
drawn (dropout, noise), and what normbench makes of it. Of two updates the batches are those of the check, nothing is
drawn, and what clipping and the optimizer make of the weights is compared, too. Nothing of normbench is imported here.

The rule; its third point was added when the reader's first comparison had shown the need, the others before any:
- The parameters have the same names and shapes. Of the loss and of each parameter's gradient, the largest difference is
  at most 1e-10 of the largest value.
- At the initial weights, where many parameters are 0, and with each parameter moved by N(0, 0.05^2), so that none is.
- A gradient whose largest value is below 1e-12 of the largest of the arm's gradients is nothing but rounding, and is
  held against that: of a first state that all rows share, which BN takes away; of what is added to every word's
  attention, while that is still linear.
- Two updates begin at the initial weights: their losses, the gradients of the first before they are clipped, all
  weights after both, and metrics then, held against 1e-10 of the largest value. So are the data.
"""

from __future__ import annotations

import math
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

BOUND, ROUNDING, MOVED = 1e-10, 1e-12, (0.0, 0.05)
RULE = (
    "One update of each arm in float64, beside normbench's, from equal weights, with an equal batch and equal noise "
    "and dropout: the loss, and the gradient of every parameter, of which the largest difference is told relative to "
    "the largest value. The rule is in `scripts/check/equal.py`."
)
TWO = (
    "Two updates of each arm in float64, beside normbench's, from its initial weights and on batches of ours: both "
    "losses, the gradient of every parameter before it is clipped, every parameter after both updates, which clipping "
    "and the optimizer decide too, and the metrics then; and what both read from the data. The largest difference is "
    "told relative to the largest value. The rule is in `scripts/check/equal.py`."
)
SECOND = "loss of update 2"
Tensors = Mapping[str, Tensor]
Arrays = Mapping[str, np.ndarray]
Initial = Callable[[str], Tensors]  # (arm) -> weights by normbench's names
Loss = Callable[[str, Tensors, Tensors, Sequence[Tensor]], Tensor]  # (arm, weights, batch, drawn) -> loss of an update


@dataclass(frozen=True)
class Equal:
    """One array beside normbench's: `difference` relative to the largest value, `size` how many numbers it has.

    `moved`: the deviation by which weights are moved from their initial values; None of data, which have none.
    """

    cell: str
    moved: float | None
    what: str
    ours: float
    theirs: float
    size: int
    difference: float

    @property
    def judgement(self) -> str:
        return "equal" if self.difference <= BOUND else "DIFFERENT"

    @property
    def weights(self) -> str:
        if self.moved is None:
            return ""
        return f"moved by N(0, {self.moved:g}²)" if self.moved else "initial"


def of_normbench(*words: str, given: Arrays | None = None) -> dict[str, np.ndarray]:
    """The arrays that `theirs/arrays.py` writes for these words, and for arrays given to it."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "arrays.npz"
        script = Path(__file__).parent / "theirs" / "arrays.py"
        if given:
            np.savez(file, **given)  # type: ignore[arg-type]
        subprocess.run([sys.executable, str(script), *words, str(file)], check=True)
        with np.load(file) as arrays:
            return dict(arrays)


def compare(artifact: str, fidelity: str, arms: Sequence[str], initial: Initial, loss: Loss) -> Iterator[Equal]:
    """Loss and every gradient; `ours` and `theirs` are the loss, or the largest value of a gradient."""
    for arm in arms:
        for moved in MOVED:
            arrays = of_normbench("update", artifact, fidelity, arm, str(moved))
            given = _below("weight", arrays)
            wanted = {name: weight.shape for name, weight in initial(arm).items()}
            if (shapes := {name: weight.shape for name, weight in given.items()}) != wanted:
                raise SystemExit(f"{arm}: other parameters: {sorted(shapes.items() ^ wanted.items())}")
            weights = {name: weight.requires_grad_() for name, weight in given.items()}
            drawn = _below("drawn", arrays)
            value = loss(arm, weights, _below("batch", arrays), [drawn[str(n)] for n in range(len(drawn))])
            value.backward()
            yield one(arm, moved, "loss", value.detach(), arrays["loss"])
            gradients = _below("gradient", arrays)
            least = ROUNDING * max(theirs.abs().max().item() for theirs in gradients.values())
            for name, theirs in gradients.items():
                gradient = weights[name].grad
                assert gradient is not None, name
                yield one(arm, moved, f"gradient of {name}", gradient, theirs, least)


def updates(
    arm: str,
    network: nn.Module,
    loss: Callable[[int], Tensor],
    update: Callable[[Tensor], object],
    test: Callable[[], Mapping[str, float]],
    ours: Callable[[str, np.ndarray], Mapping[str, np.ndarray]],
    theirs: Arrays,
) -> Iterator[Equal]:
    """Two updates, and metrics after them; `ours` gives our parameters of one of theirs."""

    def named(kind: str) -> dict[str, Tensor]:
        arrays = {name: tensor.numpy() for name, tensor in _below(kind, theirs).items()}
        return {key: torch.tensor(a) for name, array in arrays.items() for key, a in ours(name, array).items()}

    network.load_state_dict(named("initial"))
    for number in (1, 2):
        value = loss(number - 1)
        yield one(arm, 0.0, f"loss of update {number}", value.detach(), theirs[f"loss.{number}"])
        if number == 1:
            gradients = named("gradient")
            least = ROUNDING * max(gradient.abs().max().item() for gradient in gradients.values())
            our_gradients = torch.autograd.grad(value, [*map(network.get_parameter, gradients)], retain_graph=True)
            for (name, gradient), our_gradient in zip(gradients.items(), our_gradients, strict=True):
                yield one(arm, 0.0, f"gradient of {name}", our_gradient, gradient, least)
        update(value)
    for name, weight in named("updated").items():
        yield one(arm, 0.0, f"{name} after 2 updates", network.get_parameter(name).detach(), weight)
    for name, metric in test().items():
        yield one(arm, 0.0, f"{name} after 2 updates", metric, theirs[f"metric.{name}"])


def of_gru(name: str, array: np.ndarray) -> dict[str, np.ndarray]:
    """A GRU's parameter of normbench as ours are: blocks z, r, n of rows as [r; z] and n, matrices transposed."""
    layer, _, last = name.rpartition(".")
    if ".norms." in name:
        norm = layer.rpartition(".")[2]
        turned = np.concatenate(np.split(array, 2)[::-1]) if norm.endswith("gates") else array
        return {f"norms.{norm}.{'gain' if last == 'gain' else 'shift'}": turned}
    z, r, n = np.split(array, 3)
    gates, candidate = {"weight_ih": ("W", "Wx"), "weight_hh": ("U", "Ux"), "bias": ("b", "bx")}[last]
    return {gates: np.concatenate([r, z]).T, candidate: n.T}


def _below(kind: str, arrays: Mapping[str, np.ndarray]) -> dict[str, Tensor]:
    start = f"{kind}."
    return {name.removeprefix(start): torch.from_numpy(a) for name, a in arrays.items() if name.startswith(start)}


def one(cell: str, moved: float | None, what: str, ours: Any, theirs: Any, least: float = 0.0) -> Equal:
    """A number, or an array, whose largest value is shown; `least`: what a gradient must be to be more than rounding.

    NaN, and what is not 0 where normbench has 0, differ infinitely.
    """
    ours, theirs = (torch.as_tensor(side, dtype=torch.float64) for side in (ours, theirs))
    if ours.shape != theirs.shape:
        raise SystemExit(f"{cell}: {what} has the shape {tuple(ours.shape)}, and normbench's {tuple(theirs.shape)}")
    apart, largest = (ours - theirs).abs().max().item(), theirs.abs().max().item()
    scale = largest if largest >= least else least / ROUNDING
    difference = (apart / scale if scale else math.inf) if apart else 0.0
    sizes = (ours.abs().max().item(), largest) if theirs.ndim else (ours.item(), theirs.item())
    return Equal(cell, moved, what, *sizes, theirs.numel(), math.inf if math.isnan(difference) else difference)


def rule(rows: Sequence[Equal]) -> str:
    return TWO if any(each.what == SECOND for each in rows) else RULE


def summary(rows: Sequence[Equal]) -> str:
    unequal = [each for each in rows if each.difference > BOUND]
    worst = max(rows, key=lambda each: each.difference)
    answer = f"{len(unequal)} NOT equal" if unequal else "equal"
    arms = len({each.cell for each in rows if each.moved is not None})
    given, compared = "weights, batch and draws", "the loss and the gradient of every parameter"
    if rule(rows) == TWO:
        given = "weights and batches"
        compared = "data, two losses, the gradient of every parameter, its value after two updates and metrics then"
    return (
        f"At equal {given}, in float64, {compared}, {len(rows)} arrays of {arms} arms, differ by at most "
        f"{worst.difference:.1g} of their largest value ({worst.cell}, {worst.what}): {answer} (bound {BOUND:g})."
    )


def table(rows: Sequence[Equal]) -> str:
    """A row per arm and weights, and one for each array that is not equal."""
    lines = ["| arm | weights | arrays | loss, ours | loss, normbench | largest difference | |", "|" + " --- |" * 7]
    for cell, moved in dict.fromkeys((each.cell, each.moved) for each in rows):
        of_cell = [each for each in rows if (each.cell, each.moved) == (cell, moved)]
        first, worst = of_cell[0], max(of_cell, key=lambda each: each.difference)
        losses = f"{first.ours:.12g} | {first.theirs:.12g}" if moved is not None else " | "
        lines.append(
            f"| {cell} | {first.weights} | {len(of_cell)} | {losses} | {worst.difference:.2g} | {worst.judgement} |"
        )
        lines += [
            f"| {cell} | {each.weights} | {each.what} | {each.ours:.12g} | {each.theirs:.12g} | "
            f"{each.difference:.2g} | {each.judgement} |"
            for each in of_cell
            if each.difference > BOUND
        ]
    return "\n".join(lines)
