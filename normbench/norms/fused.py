"""What a recurrent layer needs to compute a normalizer inside its own loop, without calling it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from normbench.norms.scalars import Sums, logging_to

# over the features of a row, OUT with eps outside the root, MIN with eps as the smallest root; of each number by
# itself; over the rows of the batch, or its valid ones, or by statistics that are given; as in rnn/step.c, which has
# no ELEMENT: any other function of each number by itself
NONE, LAYER, RMS, LAYER_OUT, RMS_MIN, TANH, ERF, BATCH, VALID, FIXED = range(10)
ELEMENT = -1
TRIED = 64  # rows: two features of which one depends on the other pass with a chance of 1e-8


class FusedSpec(NamedTuple):
    """gain * N(x) + bias of every step, in the normalizer's current mode and variant.

    kind: N, one of the constants here; `gain` and `bias` (features,), or None.
    alpha, shift: (1,) of `TANH` and `ERF`, N(x) = tanh(alpha x + shift) or erf of it; no shift is 0.
    apply: of `ELEMENT`: N itself, of rows (n, features), with the parameters of the normalizer.
    population: of `FIXED`: mean and variance (steps, features) of a range of steps.
    learn: of `BATCH` and `VALID`: takes mean, biased variance (steps, features) and number of values (steps, 1).
    """

    kind: int
    eps: float = 0.0
    gain: Tensor | None = None
    bias: Tensor | None = None
    alpha: Tensor | None = None
    shift: Tensor | None = None
    apply: Callable[[Tensor], Tensor] | None = None
    population: Callable[[range], tuple[Tensor, Tensor]] | None = None
    learn: Callable[[Tensor, Tensor, Tensor], None] | None = None


@torch.no_grad()
def elementwise(module: nn.Module, apply: Callable[[Any, Tensor, Tensor | None], Tensor], features: int) -> bool:
    """Whether each number of `apply(module, rows, mask)` depends on the same number of the rows (n, features) alone.

    Measured on a copy in float64 whose parameters are away from their start: rows that differ from one another in half
    of their features, drawn anew for each, agree in the others. A module with buffers may count what it was given, and
    one that logs wants to be called.
    """
    if any(True for _ in module.buffers()):
        return False
    generator = torch.Generator().manual_seed(0)
    row, others = (torch.randn(n, features, generator=generator, dtype=torch.float64) for n in (1, TRIED))
    changed = torch.rand(TRIED, features, generator=generator) < 0.5
    rows = torch.where(changed, others, row)
    given = rows.clone()
    logged: Sums = {}
    try:
        copied = copy.deepcopy(module).to("cpu", torch.float64)
        for parameter in copied.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
        with torch.random.fork_rng(devices=[]), logging_to(logged, ()):
            alone, together = apply(copied, row.clone(), None), apply(copied, given, changed[:, 0])
        unmoved = not logged and together.shape == rows.shape and torch.equal(given, rows)
        return unmoved and torch.allclose(together[~changed], alone.expand_as(rows)[~changed], 1e-10, 1e-10)
    except Exception:  # a user's module may raise anything: it is called as it is
        return False
