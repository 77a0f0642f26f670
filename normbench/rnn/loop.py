"""The one time loop: projections of all steps at once, then step after step by the fastest backend that fits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from normbench.norms.base import build
from normbench.norms.fused import ELEMENT
from normbench.norms.sites import Choice, declared
from normbench.rnn import aten, backends, fused, stepwise
from normbench.rnn.cells import Cell, SequenceWeights, State, bounded, filled
from normbench.rnn.plan import plan

# rows "a user's isru" of scripts/bench/rnn.py, the C kernel with layer normalization being 1
SLOWER = "an update takes 2 to 9 times as long as with norm=layer (scripts/bench/rnn.py)."
LARGE = 1 << 15  # numbers of a step from which an element-wise normalizer of a user's is no faster by ATen


def unroll(cell: Cell, x: Tensor, mask: Tensor | None, state: State, weights: SequenceWeights) -> tuple[Tensor, State]:
    """Outputs (T, B, H) and the last state of a cell over x (T, B, I); mask (T, B), true where x is valid."""
    # torch.compile would unroll all steps, minutes for hundreds: it leaves this out of its graphs, as it does nn.LSTM
    outside = torch.compiler.is_dynamo_compiling() and not torch.compiler.is_exporting()
    run = torch.compiler.disable(_unroll) if outside else _unroll
    return run(cell, x, mask, state, weights)


def _unroll(cell: Cell, x: Tensor, mask: Tensor | None, state: State, weights: SequenceWeights) -> tuple[Tensor, State]:
    backend = backends.current(x.device)
    planned = plan(cell) if backend else None  # it may measure a normalizer, which no trace should see
    if planned is not None and x.shape[1] < (2 if planned.over_rows else 1):
        planned = None  # one value for each statistic, or none: left to the normalizers
    if planned is not None and planned.elements and x.shape[1] * len(weights.weight_hh) > LARGE:
        planned = None
    if backend is None or planned is None or not _together(weights.weight_hh, mask, x, *state):
        result: tuple[Tensor, State] = cell(x if mask is None else filled(x, mask[..., None]), mask, state, weights)
        return result
    if mask is not None and not (x.is_cpu and bounded(x)):
        x = filled(x, mask[..., None])
    if planned.elements:
        backend = aten.Run  # the kernel has no element-wise normalizers of others
    return fused.sequence(cell, planned, backend, x, mask, state, weights.folded())


def _together(weight: Tensor, mask: Tensor | None, *given: Tensor) -> bool:
    """Whether all have one dtype and one device; if not, the reference loop's operations raise torch's error."""
    device = weight.device
    alike = all(tensor.dtype == weight.dtype and tensor.device == device for tensor in given)
    return alike and (mask is None or mask.device == device)


def notes(config: Mapping[str, Any], choices: Mapping[str, Choice]) -> list[str]:
    """What a run's normalizers cost in recurrent cells because the kernel cannot compute them, a line for each."""
    lines = dict[str, None]()
    for path, site in declared(config).items():
        choice = choices.get(path)
        recurrent = "state" in site.kinds or path.replace("input", "hidden") in choices.keys() - {path}
        if choice is not None and recurrent and choice.kind not in ("weight", "block"):
            spec = build(site, choice).fused()
            if spec is None or spec.kind == ELEMENT:
                method = "the plain loop" if spec is None else "torch's operations"
                lines[f"{choice.name}: recurrent cells are computed by {method}: {SLOWER}"] = None
    return list(lines)


class Steps:
    """One step at a time, for models that feed outputs back into inputs: `state = steps(x_t, state)`.

    Made by a layer's `steps(batch)` for one sequence: weights are normalized and dropout masks drawn once; steps are
    counted.
    """

    def __init__(self, cell: Cell, weights: SequenceWeights, count: int | None = None) -> None:
        self.cell, self.weights, self.t = cell, weights, 0
        backend = backends.current(weights.weight_hh.device)
        planned = plan(cell) if backend else None
        self.fast = None
        if backend is not None and planned is not None and not planned.over_rows:  # these have statistics per step
            backend = aten.Run if planned.elements else backend
            self.fast = stepwise.Steps(cell, planned, backend, weights.folded(), count)

    def __call__(self, x: Tensor, state: State, mask: Tensor | None = None) -> State:
        """The state after x_t (B, I), its output first; rows where the mask (B,) is false keep theirs."""
        if mask is not None:
            x = filled(x, mask[..., None])
        if self.fast is not None:
            return self.fast(x, state, mask)
        z = self.cell.input_step(self.cell.summed(x, self.weights), self.t, mask)
        state = self.cell.step(z, state, self.weights, self.t, mask)
        self.t += 1
        return state
