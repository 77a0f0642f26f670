"""Loss and gradient of an implementation of its own beside normbench's, of one update in float64.

`theirs/arrays.py`, a process of its own, writes to a file what both start from, the weights, the batch and all that is
drawn (dropout, noise), and what normbench makes of it. Nothing of normbench is imported here.

The rule; its last point was added when the reader's first comparison had shown the need, the others before any:
- The parameters have the same names and shapes. Of the loss and of each parameter's gradient, the largest difference is
  at most 1e-10 of the largest value.
- At the initial weights, where many parameters are 0, and with each parameter moved by N(0, 0.05^2), so that none is.
- A gradient whose largest value is below 1e-12 of the largest of the arm's gradients is nothing but rounding, and is
  held against that: of a first state that all rows share, which BN takes away; of what is added to every word's
  attention, while that is still linear.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

BOUND, ROUNDING, MOVED = 1e-10, 1e-12, (0.0, 0.05)
RULE = (
    "One update of each arm in float64, beside normbench's, from equal weights, with an equal batch and equal noise "
    "and dropout: the loss, and the gradient of every parameter, of which the largest difference is told relative to "
    "the largest value. The rule is in `scripts/check/equal.py`."
)
Tensors = Mapping[str, Tensor]
Initial = Callable[[str], Tensors]  # (arm) -> weights by normbench's names
Loss = Callable[[str, Tensors, Tensors, Sequence[Tensor]], Tensor]  # (arm, weights, batch, drawn) -> loss of an update


@dataclass(frozen=True)
class Equal:
    """One array beside normbench's: `difference` relative to the largest value, `size` how many numbers it has."""

    cell: str
    moved: float
    what: str
    ours: float
    theirs: float
    size: int
    difference: float

    @property
    def judgement(self) -> str:
        return "equal" if self.difference <= BOUND else "DIFFERENT"


def of_normbench(*words: str) -> dict[str, np.ndarray]:
    """The arrays that `theirs/arrays.py` writes for these words."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "arrays.npz"
        script = Path(__file__).parent / "theirs" / "arrays.py"
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
            yield _one(arm, moved, "loss", value.detach(), torch.as_tensor(arrays["loss"]), 0.0)
            gradients = _below("gradient", arrays)
            least = ROUNDING * max(theirs.abs().max().item() for theirs in gradients.values())
            for name, theirs in gradients.items():
                gradient = weights[name].grad
                assert gradient is not None, name
                yield _one(arm, moved, f"gradient of {name}", gradient, theirs, least)


def _below(kind: str, arrays: Mapping[str, np.ndarray]) -> dict[str, Tensor]:
    start = f"{kind}."
    return {name.removeprefix(start): torch.from_numpy(a) for name, a in arrays.items() if name.startswith(start)}


def _one(arm: str, moved: float, what: str, ours: Tensor, theirs: Tensor, least: float) -> Equal:
    """`least`: what a gradient must be to be more than rounding."""
    apart, largest = (ours - theirs).abs().max().item(), theirs.abs().max().item()
    scale = largest if largest >= least else least / ROUNDING
    shown = (ours.abs().max().item(), largest) if least else (ours.item(), theirs.item())
    return Equal(arm, moved, what, *shown, theirs.numel(), apart / scale)


def summary(found: Sequence[Equal]) -> str:
    unequal = [each for each in found if each.difference > BOUND]
    worst = max(found, key=lambda each: each.difference)
    said = f"{len(unequal)} NOT equal" if unequal else "equal"
    arms = len({each.cell for each in found})
    return (
        f"At equal weights, batch and draws, in float64, the loss and the gradient of every parameter, {len(found)} "
        f"arrays of {arms} arms, differ by at most {worst.difference:.1g} of their largest value ({worst.cell}, "
        f"{worst.what}): {said} (bound {BOUND:g})."
    )


def table(found: Sequence[Equal]) -> str:
    """A row per arm and weights, and one for each array that is not equal."""
    lines = ["| arm | weights | arrays | loss, ours | loss, normbench | largest difference | |", "|" + " --- |" * 7]
    for cell, moved in dict.fromkeys((each.cell, each.moved) for each in found):
        own = [each for each in found if (each.cell, each.moved) == (cell, moved)]
        loss, worst = own[0], max(own, key=lambda each: each.difference)
        weights = f"moved by N(0, {moved:g}²)" if moved else "initial"
        lines.append(
            f"| {cell} | {weights} | {len(own)} | {loss.ours:.12g} | {loss.theirs:.12g} | {worst.difference:.2g} | "
            f"{worst.judgement} |"
        )
        lines += [
            f"| {cell} | {weights} | {each.what} | {each.ours:.12g} | {each.theirs:.12g} | {each.difference:.2g} | "
            f"{each.judgement} |"
            for each in own
            if each.difference > BOUND
        ]
    return "\n".join(lines)
