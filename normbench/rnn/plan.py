"""The plan of a cell for the backends: how its normalizers are computed, sizes, gains and shifts."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from normbench.norms.base import Normalizer
from normbench.norms.fused import BATCH, FIXED, NONE, VALID, FusedSpec
from normbench.rnn.cells import Cell, GRUCell, LSTMCell, plus
from normbench.rnn.matmul import Projection


@dataclass(frozen=True)
class Element:
    """An element-wise normalizer, which is called at each step."""

    norm: Normalizer
    training: bool
    apply: Callable[[Tensor], Tensor] = field(compare=False)
    parameters: tuple[nn.Parameter, ...] = field(compare=False)  # those that learn


class Plan(NamedTuple):
    """The facts of a cell that are the same for all sequences.

    kinds, eps: of an LSTM `input`, `hidden`, `cell`; of a GRU both for the gates, then both for the candidate.
    scaled: an LSTM without a normalizer at the cell that has a gain there all the same.
    clip: of an LSTM, bound of the gates' derivatives of one row's loss; inf where there is none.
    elements: by their place in kinds, those that are `ELEMENT`.
    """

    gru: bool
    hidden: int
    kinds: tuple[int, int, int, int]
    eps: tuple[float, float, float, float]
    update_old: bool
    scaled: bool
    clip: float
    elements: Mapping[int, Element]

    @property
    def over_rows(self) -> bool:
        """Whether any normalizer has statistics of columns, each step its own."""
        return max(self.kinds) >= BATCH

    @property
    def blocks(self) -> list[int]:
        """Features of the gates that are normalized together."""
        return [2 * self.hidden, self.hidden] if self.gru else [4 * self.hidden]

    def widths(self) -> tuple[int, int, int, int]:
        """The features of each normalizer."""
        n = self.hidden
        return (2 * n, 2 * n, n, n) if self.gru else (4 * n, 4 * n, n, 0)


class Vectors(NamedTuple):
    """Gains and shifts, each over the features it is for; all normalizers without a shift of their own share these.

    LSTM: pre = gain_x N(z) + gain_h N(u) + shift, seen = gain_c N(c) + shift_c. GRU: the same for its gates, for the
    candidate gain_x N(z) + shift and gain_h N(u) + shift_h. What a cell does not have is empty.
    inside: alpha and shift inside of N, of each of the plan's kinds.
    """

    gain_x: Tensor
    gain_h: Tensor
    shift: Tensor
    shift_h: Tensor
    gain_c: Tensor
    shift_c: Tensor
    inside: Tensor


class Recurrence(NamedTuple):
    """What a backend computes, forward or backward: steps of one sequence.

    plan, vectors: the cell's.
    z: W_x x of all steps, with the bias inside, (T, B, gates H).
    h, c: the states, (T + 1, B, H), of which the first is given and the others are written; c of a GRU (T + 1, B, 0),
        and where no backward pass will come one for all steps.
    mask: (T, B), true where the step is valid, or None.
    moments: of a plan with normalizers over rows, as `prepare_moments` made them; a forward pass writes those that are
        not given.
    saved: for a backward pass, what the backend's `saved` of the forward pass gave.
    keep: false where no backward pass will come.
    """

    plan: Plan
    vectors: Vectors
    z: Tensor
    h: Tensor
    c: Tensor
    mask: Tensor | None
    moments: Sequence[Tensor] = ()
    saved: Sequence[Tensor] = ()
    keep: bool = True


class Gradients(NamedTuple):
    """Of the products z = W_x x and u = W_h h, each (T, B, gates H), of the vectors, of parameters of elements."""

    z: Tensor
    u: Tensor
    vectors: Vectors
    parameters: Mapping[Tensor, Tensor] = MappingProxyType({})


class Backend(ABC):
    """The element-wise operations of one sequence, forward or backward. The caller makes the matrix products.

    `fused` takes all steps of a sequence, `stepwise` one at a time, from 0 up and back. Forward: `prepare`, then
    `forward_all`, or `forward` for each step. Backward: `begin`, then `backward_all`, or `backward` for each step, and
    `finish`. All tensors are on one device and of the cell's dtype, each step contiguous.
    """

    overwrites: ClassVar[bool] = False  # gradients of z and u take the place of z and u
    u: Tensor  # the products W_h h, (T, B, gates H)
    du: Tensor  # their gradient, from `begin` on
    dc: Tensor  # the gradient of the c before the step that came back last, (B, H)
    carry: Tensor  # the same of h, as far as it does not go through the product

    @abstractmethod
    def __init__(self, recurrence: Recurrence) -> None: ...

    @staticmethod
    def packs() -> bool:
        """Whether the caller's products are to be the kernel's."""
        return False

    @abstractmethod
    def saved(self) -> list[Tensor]:
        """The tensors that a backward pass needs besides the arguments of this one."""

    def restore(self, z: Tensor, u: Tensor) -> None:  # noqa: B027  nothing to do without `overwrites`
        """Put z and u back, where a first backward pass has overwritten them and a second one begins."""

    def prepare(self, rows: slice) -> None:  # noqa: B027  nothing to do where a step makes it
        """The input's term of these steps, before the first of them."""

    @abstractmethod
    def forward(self, t: int, u: Tensor) -> None:
        """h[t + 1] and c[t + 1] from u, the product with h[t], which may lie in u[t] of this run or elsewhere."""

    def forward_all(self, projection: Projection) -> bool:
        """All steps, products included; false, and nothing done, where these are better made one by one."""
        return False

    @classmethod
    def infer(cls, recurrence: Recurrence, x: Tensor, inputs: Projection, projection: Projection) -> bool:
        """All steps from x (T, B, features), without z; false, and nothing done, where it cannot."""
        return False

    @abstractmethod
    def begin(self, dout: Tensor, dc: Tensor, carry: Tensor, every: bool = True) -> None:
        """Before the first backward step: gradients of all outputs, of the last c, and of the last h past the product.

        every: false where some steps may not come back: they add nothing to the vectors' gradients, and their rows of
            the gradients of z and u mean nothing.
        """

    @abstractmethod
    def backward(self, t: int, dh: Tensor) -> None:
        """du[t], and dc and carry for step t - 1, from dh, which is what reaches h[t + 1] through the product."""

    def backward_all(self, projection: Projection, dh: Tensor) -> bool:
        """All steps, as `forward_all`; dh is overwritten by what reaches h[0] through the product."""
        return False

    @abstractmethod
    def dz(self, t: int) -> Tensor:
        """The gradient of z[t], after its backward step, where steps were prepared one by one."""

    @abstractmethod
    def finish(self) -> Gradients:
        """Gradients of z and u, and of the vectors, summed over steps and rows."""


def plan(cell: Cell) -> Plan | None:
    """The plan of this cell in its current mode; None if no backend can compute it."""
    if type(cell) not in (LSTMCell, GRUCell) or cell.weight_hh.dtype not in (torch.float32, torch.float64):
        return None
    norms = _norms(cell)
    specs = [_spec(norm) for norm in norms]
    if any(spec is None for spec in specs):
        return None
    a, b, c, d = (spec for spec in specs if spec is not None)
    elements = {
        at: Element(norm, norm.training, spec.apply, tuple(p for p in norm.parameters() if p.requires_grad))
        for at, (norm, spec) in enumerate(zip(norms, (a, b, c, d), strict=True))
        if norm is not None and spec.apply is not None
    }
    old = isinstance(cell, GRUCell) and cell.update == "old"
    scaled = isinstance(cell, LSTMCell) and cell.scaled
    clip = cell.clip if isinstance(cell, LSTMCell) and cell.clip else math.inf
    kinds, eps = (a.kind, b.kind, c.kind, d.kind), (a.eps, b.eps, c.eps, d.eps)
    return Plan(isinstance(cell, GRUCell), cell.hidden_size, kinds, eps, old, scaled, clip, elements)


def _norms(cell: Cell) -> list[Normalizer | None]:
    """In the order of a plan's kinds."""
    gru = ("input.gates", "hidden.gates", "input.candidate", "hidden.candidate")
    return [cell.norm(name) for name in (gru if isinstance(cell, GRUCell) else ("input", "hidden", "cell", ""))]


def _spec(norm: Normalizer | None) -> FusedSpec | None:
    if norm is None:
        return FusedSpec(NONE)
    watched = (norm._forward_hooks, norm._forward_pre_hooks, norm._backward_hooks, norm._backward_pre_hooks)
    return None if any(watched) else norm.fused()  # hooks must be called at each step


def prepare_moments(cell: Cell, plan: Plan, steps: int) -> list[Tensor]:
    """By the plan's kinds, for normalizers over rows: mean, 1 / root, variance of each step, (T, 3, features).

    Those that are given are filled in, the others for a forward pass to fill; what has none is empty.
    """
    if not plan.over_rows:
        return [cell.weight_hh.new_empty(0)] * 4
    moments = []
    for norm, kind, eps, width in zip(_norms(cell), plan.kinds, plan.eps, plan.widths(), strict=True):
        of_norm = cell.weight_hh.new_empty((steps, 3, width) if kind >= BATCH else 0)
        if kind == FIXED and (spec := _spec(norm)) and spec.population:
            mean, variance = spec.population(range(steps))
            of_norm.copy_(torch.stack([mean, (variance + eps).rsqrt(), variance], 1))
        moments.append(of_norm)
    return moments


def learn(cell: Cell, plan: Plan, moments: list[Tensor], valid: Tensor) -> None:
    """Update the normalizers' running averages with the moments of a forward pass; the mask is valid (T, B)."""
    for norm, kind, of_norm in zip(_norms(cell), plan.kinds, moments, strict=True):
        if kind in (BATCH, VALID) and (spec := _spec(norm)) and spec.learn:
            mean, _, variance = of_norm.unbind(1)
            rows = valid if kind == VALID else torch.ones_like(valid)
            spec.learn(mean, variance, rows.sum(1, keepdim=True))


def vectors(cell: Cell) -> Vectors:
    """The cell's gains, shifts and biases as the backends take them, under autograd."""
    size, gru = cell.hidden_size, isinstance(cell, GRUCell)
    _, after, second = cell.biases()
    specs = [_spec(norm) or FusedSpec(NONE) for norm in _norms(cell)]
    widths = [2 * size, size] if gru else [4 * size]
    gain_x, shift = _gain_and_shift(cell, specs[: 4 if gru else 1 : 2], widths, after)
    gain_h, shift_h = _gain_and_shift(cell, specs[1 : 4 if gru else 2 : 2], widths, second)
    empty, inside = cell.weight_hh.new_empty(0), _inside(cell, specs)
    if gru:  # the shift of U h is multiplied by r; the gates' shifts are added to the rest
        shift = torch.cat([shift[: 2 * size] + shift_h[: 2 * size], shift[2 * size :]])
        return Vectors(gain_x, gain_h, shift, shift_h[2 * size :], empty, empty, inside)
    shift = shift + shift_h
    if isinstance(cell, LSTMCell) and cell.forget_bias:
        shift = torch.cat([shift[:size] + cell.forget_bias, shift[size:]])
    gain_c, shift_c = _gain_and_shift(cell, specs[2:3], [size], None)
    if isinstance(cell, LSTMCell) and cell.scaled:
        gain_c = gain_c * cell.scale
    return Vectors(gain_x, gain_h, shift, empty, gain_c, shift_c, inside)


def _inside(cell: Cell, specs: Sequence[FusedSpec]) -> Tensor:
    if all(spec.alpha is None for spec in specs):
        return cell.weight_hh.new_empty(0)
    zero = cell.weight_hh.new_zeros(1)
    return torch.cat([zero if part is None else part for spec in specs for part in (spec.alpha, spec.shift)])


def _gain_and_shift(
    cell: Cell, specs: Sequence[FusedSpec], widths: list[int], bias: Tensor | None
) -> tuple[Tensor, Tensor]:
    gains, shifts = [], []
    for spec, width in zip(specs, widths, strict=True):
        gains.append(cell.weight_hh.new_ones(width) if spec.gain is None else spec.gain)
        shifts.append(cell.weight_hh.new_zeros(width) if spec.bias is None else spec.bias)
    gain, shift = (parts[0] if len(parts) == 1 else torch.cat(parts) for parts in (gains, shifts))
    return gain, plus(shift, bias)
