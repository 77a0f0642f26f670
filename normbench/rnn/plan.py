"""The plan of a cell for the backends: kinds of normalizers, sizes, gains and shifts."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from normbench.norms.base import Normalizer, WeightNormalizer
from normbench.norms.batch import BatchNorm
from normbench.norms.layer import LayerNorm
from normbench.norms.rms import RMSNorm
from normbench.rnn.cells import Cell, GRUCell, LSTMCell

# over the features of a row, OUT with eps outside the root; over the rows of the batch, or its valid ones, or by
# statistics that are given
NONE, LAYER, RMS, LAYER_OUT, BATCH, VALID, FIXED = range(7)


class Plan(NamedTuple):
    """The facts of a cell that are the same for all sequences.

    kinds, eps: of an LSTM `input`, `hidden`, `cell`; of a GRU both for the gates, then both for the candidate.
    scaled: an LSTM without a normalizer at the cell that has a gain there all the same.
    clip: of an LSTM, bound of the gates' derivatives of one row's loss; inf where there is none.
    """

    gru: bool
    hidden: int
    kinds: tuple[int, int, int, int]
    eps: tuple[float, float, float, float]
    update_old: bool
    scaled: bool
    clip: float

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
    """

    gain_x: Tensor
    gain_h: Tensor
    shift: Tensor
    shift_h: Tensor
    gain_c: Tensor
    shift_c: Tensor


class Gradients(NamedTuple):
    """Of the products z = W_x x and u = W_h h, each (T, B, gates H), and of the vectors."""

    z: Tensor
    u: Tensor
    vectors: Vectors


def plan(cell: Cell) -> Plan | None:
    """The plan of this cell in its current mode; None if no backend can compute it."""
    if type(cell) not in (LSTMCell, GRUCell) or cell.weight_hh.dtype not in (torch.float32, torch.float64):
        return None
    gru = isinstance(cell, GRUCell)
    found = [_kind(norm) for norm in _norms(cell)]
    if any(kind is None for kind in found):
        return None
    kinds = [kind for kind in found if kind is not None] + [(NONE, 0.0)] * (4 - len(found))
    old = isinstance(cell, GRUCell) and cell.update == "old"
    (a, ea), (b, eb), (c, ec), (d, ed) = kinds
    scaled = isinstance(cell, LSTMCell) and cell.scaled
    clip = cell.clip if isinstance(cell, LSTMCell) and cell.clip else math.inf
    return Plan(gru, cell.hidden_size, (a, b, c, d), (ea, eb, ec, ed), old, scaled, clip)


def _norms(cell: Cell) -> list[Normalizer | None]:
    """In the order of a plan's kinds."""
    gru = ("input.gates", "hidden.gates", "input.candidate", "hidden.candidate")
    return [cell.norm(name) for name in (gru if isinstance(cell, GRUCell) else ("input", "hidden", "cell"))]


def _kind(norm: Normalizer | None) -> tuple[int, float] | None:
    if norm is None or isinstance(norm, WeightNormalizer):  # whose matrix is made before the loop
        return NONE, 0.0
    watched = norm._forward_hooks or norm._forward_pre_hooks  # hooks must be called at each step
    if type(norm) is LayerNorm and norm.factor == 1 and not watched:
        return LAYER if norm.eps_mode == "in" else LAYER_OUT, norm.eps
    if type(norm) is RMSNorm and norm.eps_mode == "in" and norm.used == norm.site.features and not watched:
        return RMS, norm.eps
    if type(norm) is BatchNorm and norm.per_step and not norm.unbiased_norm and norm.factor == 1 and not watched:
        if not norm.by_own_batch:
            return FIXED, norm.eps
        return VALID if norm.masked else BATCH, norm.eps
    return None


def prepare_moments(cell: Cell, plan: Plan, steps: int) -> list[Tensor]:
    """By the plan's kinds, for normalizers over rows: mean, 1 / root, variance of each step, (T, 3, features).

    Those that are given are filled in, the others for a forward pass to fill; what has none is empty.
    """
    found = []
    for norm, kind, width in zip((*_norms(cell), None), plan.kinds, plan.widths(), strict=False):
        made = cell.weight_hh.new_empty((steps, 3, width) if kind >= BATCH else 0)
        if kind == FIXED:
            assert isinstance(norm, BatchNorm)
            mean, variance = norm.population(range(steps))
            made.copy_(torch.stack([mean, (variance + norm.eps).rsqrt(), variance], 1))
        found.append(made)
    return found


def learn(cell: Cell, plan: Plan, moments: list[Tensor], valid: Tensor) -> None:
    """Update the normalizers' running averages with the moments of a forward pass; the mask is valid (T, B)."""
    for norm, kind, found in zip(_norms(cell), plan.kinds, moments, strict=False):
        if kind in (BATCH, VALID):
            assert isinstance(norm, BatchNorm)
            mean, _, variance = found.unbind(1)
            rows = valid if kind == VALID else torch.ones_like(valid)
            norm.learn(mean, variance, rows.sum(1, keepdim=True))


def vectors(cell: Cell) -> Vectors:
    """The cell's gains, shifts and biases as the backends take them, under autograd."""
    size = cell.hidden_size
    _, after, second = cell.biases()
    gain_x, shift_x = _gain_and_shift(cell, "input")
    gain_h, shift_h = _gain_and_shift(cell, "hidden")
    shift = _sum(after, shift_x)
    shift_h = _sum(second, shift_h)
    empty = cell.weight_hh.new_empty(0)
    if isinstance(cell, GRUCell):
        if shift_h is not None:  # the shift of U h is multiplied by r; the gates' shifts are added to the rest
            gates = torch.cat([shift_h[: 2 * size], shift_h.new_zeros(size)])
            shift, shift_h = _sum(shift, gates), shift_h[2 * size :]
        return Vectors(gain_x, gain_h, _or_zeros(shift, cell, 3), _or_zeros(shift_h, cell, 1), empty, empty)
    shift = _or_zeros(_sum(shift, shift_h), cell, 4)
    if isinstance(cell, LSTMCell) and cell.forget_bias:
        shift = torch.cat([shift[:size] + cell.forget_bias, shift[size:]])
    gain_c, shift_c = _gain_and_shift(cell, "cell")
    if isinstance(cell, LSTMCell) and cell.scaled:
        gain_c = gain_c * cell.scale
    return Vectors(gain_x, gain_h, shift, empty, gain_c, _or_zeros(shift_c, cell, 1))


def _gain_and_shift(cell: Cell, term: str) -> tuple[Tensor, Tensor | None]:
    blocks = {"": 1} if term == "cell" else cell.blocks
    gains, shifts, any_shift = [], [], False
    for block, gates in blocks.items():
        norm = cell.norm(f"{term}.{block}" if block else term)
        size = gates * cell.hidden_size
        gain, shift = (norm.gain, norm.bias) if isinstance(norm, LayerNorm | RMSNorm | BatchNorm) else (None, None)
        gains.append(cell.weight_hh.new_ones(size) if gain is None else gain)
        shifts.append(cell.weight_hh.new_zeros(size) if shift is None else shift)
        any_shift = any_shift or shift is not None
    if len(gains) == 1:
        return gains[0], shifts[0] if any_shift else None
    return torch.cat(gains), torch.cat(shifts) if any_shift else None


def _sum(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    return a if b is None else b if a is None else a + b


def _or_zeros(shift: Tensor | None, cell: Cell, gates: int) -> Tensor:
    return cell.weight_hh.new_zeros(gates * cell.hidden_size) if shift is None else shift
