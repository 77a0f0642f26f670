"""The one time loop: projections of all steps at once, then step after step on the fastest path that fits."""

from __future__ import annotations

import torch
from torch import Tensor

from normbench.rnn import engine, fused, stepwise
from normbench.rnn.cells import Cell, Once, State
from normbench.rnn.plan import plan


def unroll(cell: Cell, x: Tensor, mask: Tensor | None, state: State, once: Once) -> tuple[Tensor, State]:
    """Outputs (T, B, H) and the last state of a cell over x (T, B, I); mask (T, B), true where x is valid."""
    run, way = engine.current(), plan(cell)
    if run is not None and way is not None and x.dtype == cell.weight_hh.dtype:
        return fused.sequence(cell, way, run, x, mask, state, once.folded())
    return plain(cell, cell.summed(x, once), mask, state, once)


def plain(cell: Cell, z: Tensor, mask: Tensor | None, state: State, once: Once) -> tuple[Tensor, State]:
    """The cell's definition, step by step: every normalizer, every option."""
    outputs = []
    # unbind: indexing z[t] would make the backward pass quadratic in T
    terms = cell.input_term(z, mask).unbind(0)
    for t, term in enumerate(terms):
        state = cell.step(term, state, once, t, None if mask is None else mask[t])
        outputs.append(state[0])
    return torch.stack(outputs), state


class Steps:
    """One step at a time, for models that feed outputs back into inputs: `state = steps(x_t, state)`.

    Made by a layer's `steps(batch)` for one sequence: normalized weights and dropout masks are drawn once, steps are
    counted.
    """

    def __init__(self, cell: Cell, once: Once) -> None:
        self.cell, self.once, self.t = cell, once, 0
        run, way = engine.current(), plan(cell)
        self.fast = None if run is None or way is None else stepwise.Steps(cell, way, run, once.folded())

    def __call__(self, x: Tensor, state: State, mask: Tensor | None = None) -> State:
        """The state after x_t (B, I), its output first; rows where the mask (B,) is false keep theirs."""
        if self.fast is not None:
            return self.fast(x, state, mask)
        z = self.cell.input_step(self.cell.summed(x, self.once), self.t, mask)
        state = self.cell.step(z, state, self.once, self.t, mask)
        self.t += 1
        return state
