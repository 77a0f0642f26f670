"""Recurrent cells as their papers write them: parameters, norm sites, and one step, which is their definition."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from normbench.errors import BadInput, real, unknown
from normbench.norms.base import Normalizer, WeightNormalizer, build
from normbench.norms.derivatives import clipped
from normbench.norms.layers import Weighted
from normbench.norms.sites import Choice, Site

AnyNorm = TypeVar("AnyNorm")
Sites = Callable[[str], tuple[Site, Choice | None]]  # path -> the site and its normalizer, as a model has them
State = tuple[Tensor, ...]  # (h, c) of an LSTM, (h,) of the others; each (B, H)
BIASES = ("one", "double", "inside", "both", "none")
AXES = ("batch", "time", "feature")


@dataclass(frozen=True)
class SequenceWeights:
    """The weights after normalization and the dropout masks, the same at all steps of one sequence.

    A mask is (gates, B, features), or (1, B, features) where the gates share it; None drops nothing.
    """

    weight_ih: Tensor
    weight_hh: Tensor
    input_drop: Tensor | None = None
    state_drop: Tensor | None = None

    def folded(self) -> SequenceWeights:
        """Of a single sequence, the masks as part of the weights: W (m * x) = (W * m) x."""
        (weight_ih, input_drop), (weight_hh, state_drop) = (
            (weight, drop)
            if drop is None or drop.shape[1] > 1
            else (weight * drop.expand(-1, len(weight) // len(drop), -1).flatten(0, 1), None)
            for weight, drop in ((self.weight_ih, self.input_drop), (self.weight_hh, self.state_drop))
        )
        return SequenceWeights(weight_ih, weight_hh, input_drop, state_drop)


class Cell(Weighted):
    """The base of the cells: W_x x and W_h h with their normalizers and biases, dropout, the initial state.

    Args:
        sites, path: the model's sites; the cell's are `PATH.input` (W_x x), `PATH.hidden` (W_h h) and its own below.
            None: nothing is normalized. Axes of each: batch, time, feature. A normalizer of kind `weight` at `input` or
            `hidden` gives the matrix that the whole sequence uses; it may stand beside one of the products.
        bias: `one`: b after the normalized terms (LN 2016, eq. 17, 20). `double`: one vector after each term (torch).
            `inside`: b before the input's normalizer (the LN authors' GRU). `both`: the same b before it and again
            outside (the LN authors' LSTM). `none` (LN 2016, eq. 23-28).
        learn_h0: h_0 is learned, zeros at first; else it is zero. c_0 is always zero.
        input_dropout, state_dropout: shares of x_t and h_{t-1} that are dropped on their way to the gates in training;
            one mask per sequence, the other values divided by 1 - p. `per_gate`: each gate has its own masks (Keras
            with `implementation=1`).

    Parameters are torch's: weight_ih (gates H, I), weight_hh (gates H, H), the gates' rows in the cell's own order.
    """

    gates: ClassVar[int]
    blocks: ClassVar[Mapping[str, int]] = {}  # of gates that are normalized together; "" where all are
    states: ClassVar[int] = 1
    torch_order: ClassVar[tuple[int, ...]]  # where torch has our gates
    bias: nn.Parameter
    bias_ih: nn.Parameter
    bias_hh: nn.Parameter

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        sites: Sites | None = None,
        path: str = "",
        *,
        bias: str = "one",
        learn_h0: bool = False,
        input_dropout: float = 0.0,
        state_dropout: float = 0.0,
        per_gate: bool = True,
    ) -> None:
        super().__init__()
        self.place = path or type(self).__name__  # in messages
        _one_of(self.place, BIASES, bias=bias)
        real(self.place, least=0, below=1, input_dropout=input_dropout, state_dropout=state_dropout)
        self.input_size, self.hidden_size, self.path = input_size, hidden_size, path
        self.input_dropout, self.state_dropout, self.per_gate = input_dropout, state_dropout, per_gate
        rows = self.gates * hidden_size
        self.weight_ih = nn.Parameter(torch.empty(rows, input_size))
        self.weight_hh = nn.Parameter(torch.empty(rows, hidden_size))
        self.norms = nn.ModuleDict()
        self.weight_norms = nn.ModuleDict()  # beside others at the same site
        dropped = self._take(sites)
        if "input" in dropped:  # the bias that precedes that site is the one inside
            bias = {"inside": "none", "both": "one"}.get(bias, bias)
        if "summed" in dropped:
            bias = "none"
        self.bias_kind = bias
        names = {"none": (), "double": ("bias_ih", "bias_hh")}.get(bias, ("bias",))
        for name in names:
            self.register_parameter(name, nn.Parameter(torch.zeros(rows)))
        self.h0 = nn.Parameter(torch.zeros(hidden_size)) if learn_h0 else None
        self.reset_parameters()

    @classmethod
    def site_sizes(cls, hidden_size: int) -> dict[str, int]:
        sizes = {}
        for term in ("input", "hidden"):
            for block, gates in cls.blocks.items():
                sizes[f"{term}.{block}" if block else term] = gates * hidden_size
        return sizes

    def _take(self, sites: Sites | None) -> set[str]:
        """Build the normalizers of the sites; the terms whose preceding bias is to go."""
        dropped: set[str] = set()
        if sites is None:
            return dropped
        for name, features in self.site_sizes(self.hidden_size).items():
            site, choice = sites(".".join(part for part in (self.path, name) if part))
            if site.axes != AXES or site.features != features:
                raise BadInput(
                    f"site '{site.path}' must be declared with axes {list(AXES)} and {features} features, not "
                    f"{list(site.axes)} and {site.features}."
                )
            if choice is not None:
                self.norms[name.replace(".", "_")] = build(site, choice)
                if choice.weight is not None:
                    self.weight_norms[name.replace(".", "_")] = build(site, choice.weight)
                if not choice.keep_bias:
                    dropped.add(name.split(".")[0])
        return dropped

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """U(-1/sqrt(H), 1/sqrt(H)) as torch's; a model draws its own anew."""
        bound = 1 / math.sqrt(self.hidden_size)
        for weight in (self.weight_ih, self.weight_hh):
            weight.uniform_(-bound, bound)
        self.start()

    def norm(self, name: str) -> Normalizer | None:
        """The normalizer of the values at a site below the cell's path, e.g. `input.gates`."""
        norm = self.norms._modules.get(name.replace(".", "_"))
        return None if isinstance(norm, WeightNormalizer) else norm  # type: ignore[return-value]

    def weight_norm(self, name: str) -> WeightNormalizer | None:
        key = name.replace(".", "_")
        norm = self.weight_norms._modules.get(key, self.norms._modules.get(key))
        return norm if isinstance(norm, WeightNormalizer) else None

    def _by_block(self, term: str, norm: Callable[[str], AnyNorm]) -> list[tuple[AnyNorm, slice]]:
        """`norm` of each block of gates, and the features that it has."""
        norms, at = [], 0
        for block, gates in self.blocks.items():
            end = at + gates * self.hidden_size
            norms.append((norm(f"{term}.{block}" if block else term), slice(at, end)))
            at = end
        return norms

    def start(self) -> None:
        """Let weight normalizers take their initial values from the weights as they are now."""
        for term, weight in (("input", self.weight_ih), ("hidden", self.weight_hh)):
            for norm, rows in self._by_block(term, self.weight_norm):
                if norm is not None:
                    norm.start(weight[rows])

    def sequence_weights(
        self, batch: int, rng: np.random.Generator | None = None, drop: bool = True
    ) -> SequenceWeights:
        """Weights and dropout masks for one pass over a batch of sequences; `rng` draws input masks, then states'.

        `drop`: false for a pass in training mode that drops nothing.
        """
        drops: list[Tensor | None] = []
        for p, features in ((self.input_dropout, self.input_size), (self.state_dropout, self.hidden_size)):
            if p == 0 or not self.training or not drop:
                drops.append(None)
                continue
            if rng is None:
                raise BadInput(f"{self.place} has dropout: in training, give it a generator (rng=...).")
            shape = (self.gates if self.per_gate else 1, batch, features)
            mask = torch.from_numpy(rng.random(shape, dtype=np.float32) >= p)
            drops.append(mask.to(self.weight_hh) / (1 - p))
        return SequenceWeights(self._weight("input", self.weight_ih), self._weight("hidden", self.weight_hh), *drops)

    def _weight(self, term: str, weight: Tensor) -> Tensor:
        blocks = self._by_block(term, self.weight_norm)
        if not any(norm for norm, _ in blocks):
            return weight
        return torch.cat([weight[rows] if norm is None else norm(weight[rows]) for norm, rows in blocks])

    def initial(self, batch: int) -> State:
        """h_0 and, where there is one, c_0 = 0, each (batch, H)."""
        zero = self.weight_hh.new_zeros(batch, self.hidden_size)
        h0 = zero if self.h0 is None else self.h0.expand(batch, -1)
        return (h0, *[zero] * (self.states - 1))

    def biases(self) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """The biases before the input's normalizer, after it, and after the hidden one."""
        if self.bias_kind == "double":
            return None, self.bias_ih, self.bias_hh
        inside = self.bias if self.bias_kind in ("inside", "both") else None
        return inside, self.bias if self.bias_kind in ("one", "both") else None, None

    def summed(self, x: Tensor, weights: SequenceWeights) -> Tensor:
        """W_x x (+ b inside) of steps (*, B, I) as they come: (*, B, gates H)."""
        inside = self.biases()[0]
        if weights.input_drop is None:
            return F.linear(x, weights.weight_ih, inside)
        return plus(_gatewise(x, weights.weight_ih, weights.input_drop), inside)

    def input_term(self, z: Tensor, mask: Tensor | None) -> Tensor:
        """N(W_x x) + b of all steps: z (T, B, gates H), mask (T, B)."""
        mask = None if mask is None else mask.T
        return self._input(z, lambda norm, part: norm(part.transpose(0, 1), mask).transpose(0, 1))

    def input_step(self, z: Tensor, t: int, mask: Tensor | None) -> Tensor:
        """The same of one step t: z (B, gates H), mask (B,)."""
        return self._input(z, lambda norm, part: norm.step(part, t, mask))

    def _input(self, z: Tensor, apply: Callable[[Normalizer, Tensor], Tensor]) -> Tensor:
        return plus(self._normed("input", z, apply), self.biases()[1])

    def hidden_step(self, h: Tensor, weights: SequenceWeights, t: int, mask: Tensor | None) -> Tensor:
        """N(W_h h_{t-1}) (+ the second bias of `double`), (B, gates H)."""
        z = _gatewise(h, weights.weight_hh, weights.state_drop)
        return plus(self._normed("hidden", z, lambda norm, part: norm.step(part, t, mask)), self.biases()[2])

    def _normed(self, term: str, z: Tensor, apply: Callable[[Normalizer, Tensor], Tensor]) -> Tensor:
        blocks = self._by_block(term, self.norm)
        if not any(norm for norm, _ in blocks):
            return z
        parts = [z[..., rows] if norm is None else apply(norm, z[..., rows]) for norm, rows in blocks]
        return parts[0] if len(parts) == 1 else torch.cat(parts, -1)

    def forward(self, x: Tensor, mask: Tensor | None, state: State, weights: SequenceWeights) -> tuple[Tensor, State]:
        """Outputs (T, B, H) and last state over x (T, B, I), mask (T, B): the reference that backends must equal."""
        outputs = []
        # unbind: indexing z[t] would make the backward pass quadratic in T
        for t, term in enumerate(self.input_term(self.summed(x, weights), mask).unbind(0)):
            state = self.step(term, state, weights, t, None if mask is None else mask[t])
            outputs.append(state[0])
        return torch.stack(outputs), state

    @abstractmethod
    def step(self, x: Tensor, state: State, weights: SequenceWeights, t: int, mask: Tensor | None = None) -> State:
        """The state after step t (from 0), its output first.

        x is the input term N(W_x x_t) + b, (B, gates H); rows where the mask (B,) is false keep their state.
        """

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}, bias={self.bias_kind}"


def _one_of(place: str, choices: Sequence[str], **options: str) -> None:
    """NormbenchError unless these are among the choices."""
    for name, value in options.items():
        if value not in choices:
            raise unknown(f"{place}: {name}={value} is not possible.", str(value), choices)


def _gatewise(x: Tensor, weight: Tensor, drop: Tensor | None) -> Tensor:
    """W (m * x), with a mask for all gates or one for each."""
    if drop is None or len(drop) == 1:
        return F.linear(x if drop is None else x * drop[0], weight)
    return torch.cat([F.linear(x * m, w) for m, w in zip(drop, weight.chunk(len(drop)), strict=True)], -1)


def plus(z: Tensor, bias: Tensor | None) -> Tensor:
    return z if bias is None else z + bias


def filled(x: Tensor, mask: Tensor) -> Tensor:
    """x with 0 in the place of NaN, and of values too large to be squared, where the mask is false: 0 * NaN is NaN.

    The mask has x's axes, or ones.
    """
    return torch.where(mask | (x.abs() < _largest(x)), x, 0)


def bounded(x: Tensor) -> bool:
    """Whether `filled` would change nothing; ten times as fast."""
    low, high = x.detach().aminmax()
    return bool(-low < _largest(x)) and bool(high < _largest(x))


def _largest(x: Tensor) -> float:
    return float(torch.finfo(x.dtype).max ** 0.5)


def keep(mask: Tensor | None, new: Tensor, old: Tensor) -> Tensor:
    """`new` where the mask is true, else `old`."""
    return new if mask is None else torch.where(mask[:, None], new, old)


class LSTMCell(Cell):
    """(f, i, o, g) = N_h(W_h h) + N_x(W_x x) + b;  c_t = σ(f) c_{t-1} + σ(i) tanh(g);  h_t = σ(o) tanh(N_c(c_t)).

    LN 2016, eq. 17-19 without normalizers, eq. 20-22 with layer normalization at `input`, `hidden` and `cell`, eq.
    29-31 at `cell` alone; statistics at `input` and `hidden` are over all four gates. c is carried on as it is.

    Gate rows: f, i, o, g. Args as `Cell`, and
        forget_bias: added to f (an initial value 1 of b_f is forget_bias=1).
        scaled: σ(o) tanh(s c_t) with a fixed number s, the buffer `scale`, 1 at first: a control for the
            normalizer at `cell`. Errors: both together.
        clip: derivatives of each row's own loss by f, i, o, g, before the sigmoids and tanh, are bounded by ± clip in
            the backward pass (Graves 2013, 3.1); 0: no bound. The loss is taken to be the mean over the B rows of a
            batch, so the derivatives are bounded by ± clip / B. The weights' gradients are not clipped.
    Not the same as: `nn.LSTM`, whose rows are i, f, g, o; fastrnns' LN-LSTM, which carries the normalized c; an LSTM
    with peepholes.
    """

    gates, blocks, states = 4, {"": 4}, 2
    torch_order = (1, 0, 3, 2)

    scale: Tensor

    def __init__(
        self, *sizes: int, forget_bias: float = 0.0, scaled: bool = False, clip: float = 0.0, **options: object
    ) -> None:
        super().__init__(*sizes, **options)  # type: ignore[arg-type]
        real(self.place, forget_bias=forget_bias)
        real(self.place, least=0, clip=clip)  # 0 clips nothing
        self.forget_bias, self.scaled, self.clip = forget_bias, scaled, clip
        if scaled and self.norm("cell") is not None:
            raise BadInput(f"{self.place}: a fixed scale is a control without a normalizer at {self.place}.cell.")
        if scaled:
            self.register_buffer("scale", torch.ones(()))

    @classmethod
    def site_sizes(cls, hidden_size: int) -> dict[str, int]:
        return super().site_sizes(hidden_size) | {"cell": hidden_size}

    def step(self, x: Tensor, state: State, weights: SequenceWeights, t: int, mask: Tensor | None = None) -> State:
        h, c = state
        gates = self.hidden_step(h, weights, t, mask) + x
        f, i, o, g = (clipped(gates, self.clip / len(gates)) if self.clip else gates).chunk(4, -1)
        f = f + self.forget_bias
        c = keep(mask, f.sigmoid() * c + i.sigmoid() * g.tanh(), c)
        norm = self.norm("cell")
        normed = norm.step(c, t, mask) if norm is not None else c * self.scale if self.scaled else c
        return keep(mask, o.sigmoid() * normed.tanh(), h), c


class GRUCell(Cell):
    """(z, r) = N_h(W_h h) + N_x(W_x x);  n = tanh(N_x'(W_x' x) + σ(r) N_h'(U h));  h_t = (1 - σ(z)) h_{t-1} + σ(z) n.

    LN 2016, eq. 23-25, and 26-28 with layer normalization. Sites: `input.gates` and `hidden.gates` over both gates,
    `input.candidate` and `hidden.candidate`. r multiplies U h after the product and after its normalizer (and after
    the second bias of `double`, as torch).

    Gate rows: z, r, n. Args as `Cell`, and update: `new`: σ(z) is the share of n (the paper); `old`: of h_{t-1} (torch,
    the authors' code). The same function after a change of sign in z's rows.
    Not the same as: `nn.GRU`, whose rows are r, z, n.
    """

    gates, blocks = 3, {"gates": 2, "candidate": 1}
    torch_order = (1, 0, 2)

    def __init__(self, *sizes: int, update: str = "new", bias: str = "none", **options: object) -> None:
        super().__init__(*sizes, bias=bias, **options)  # type: ignore[arg-type]
        _one_of(self.place, ("new", "old"), update=update)
        self.update = update

    def step(self, x: Tensor, state: State, weights: SequenceWeights, t: int, mask: Tensor | None = None) -> State:
        (h,) = state
        hidden, size = self.hidden_step(h, weights, t, mask), 2 * self.hidden_size
        z, r = (hidden[:, :size] + x[:, :size]).sigmoid().chunk(2, -1)
        n = (x[:, size:] + r * hidden[:, size:]).tanh()
        new, old = (z, 1 - z) if self.update == "new" else (1 - z, z)
        return (keep(mask, old * h + new * n, h),)


class RNNCell(Cell):
    """a_t = N_h(W_hh h_{t-1}) + N_x(W_xh x_t) + b;  h_t = f(N(a_t)), f = tanh or relu.

    LN 2016, eq. 4 is layer normalization at the site `summed` with bias `none`: its own shift is the b there.
    """

    gates, blocks = 1, {"": 1}
    torch_order = (0,)

    def __init__(self, *sizes: int, nonlinearity: str = "tanh", **options: object) -> None:
        super().__init__(*sizes, **options)  # type: ignore[arg-type]
        _one_of(self.place, ("tanh", "relu"), nonlinearity=nonlinearity)
        self.nonlinearity = nonlinearity

    @classmethod
    def site_sizes(cls, hidden_size: int) -> dict[str, int]:
        return super().site_sizes(hidden_size) | {"summed": hidden_size}

    def step(self, x: Tensor, state: State, weights: SequenceWeights, t: int, mask: Tensor | None = None) -> State:
        (h,) = state
        a, norm = self.hidden_step(h, weights, t, mask) + x, self.norm("summed")
        a = a if norm is None else norm.step(a, t, mask)
        return (keep(mask, a.tanh() if self.nonlinearity == "tanh" else a.relu(), h),)
