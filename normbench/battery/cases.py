"""Small normalizers for the contract: in every layout that they declare, with their options in all pairs.

Normalizers of activations are called on a tensor of the site's layout; those of weights and blocks inside a linear
map or a convolution, which is then the examined module.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from normbench.config import compose
from normbench.errors import NormbenchError
from normbench.norms import base, layers, sites
from normbench.norms.sites import Choice, Site

ACTIVATION_KINDS = ("pre_activation", "post_activation", "state")
WEIGHT_KINDS = ("weight", "block")
Axes = tuple[str, ...]
Options = dict[str, Any]
LAYOUTS: tuple[Axes, ...] = (
    ("batch", "feature"),
    ("batch", "time", "feature"),
    ("batch", "feature", "space", "space"),
    ("batch", "space", "space", "feature"),
)
WEIGHT_LAYOUTS = LAYOUTS[:3]  # a linear map, one over a sequence, a convolution
FEATURES, SPACE, TIME = 6, (2, 3), 3
UNITS, INPUTS, KERNEL = 5, 6, 2  # of the map around a weight normalizer
FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "tanh": torch.tanh, "none": nn.Identity()}


def draw(shape: Sequence[int], seed: int = 0, scale: float = 2.0, shift: float = 1.0) -> Tensor:
    """Normal values in float64 from their own generator."""
    generator = torch.Generator().manual_seed(seed)
    return shift + scale * torch.randn(tuple(shape), generator=generator, dtype=torch.float64)


def sizes(axes: Axes, batch: int = 4, time: int = TIME, space: Sequence[int] = SPACE) -> tuple[int, ...]:
    places = iter(space)
    size = {"batch": batch, "time": time, "feature": FEATURES}
    return tuple(next(places) if axis == "space" else size[axis] for axis in axes)


def site(axes: Axes, space: tuple[int, ...] = SPACE) -> Site:
    return Site("hidden.0", ACTIVATION_KINDS, axes, FEATURES, space if "space" in axes else ())


def valid(batch: int, seed: int, time: int = TIME) -> Tensor:
    """A mask (batch, time) of sequences of at least one step, some of them shorter than the longest."""
    lengths = torch.randint(1, time + 1, (batch,), generator=torch.Generator().manual_seed(seed))
    return torch.arange(time) < lengths[:, None]


class Subject:
    """A normalizer by name: its declarations, its layouts, rows of its options, and small modules of it in float64.

    `numbers`: values to try for numeric options; without, these have their shipped value.
    """

    def __init__(
        self,
        name: str,
        facts: Mapping[str, Any],
        defaults: Mapping[str, Any],
        numbers: Mapping[str, list[Any]] | None = None,
    ) -> None:
        self.name, self.facts, self.defaults, self.numbers = name, facts, dict(defaults), numbers or {}
        self.specs: Mapping[str, Any] = facts.get("options") or {}
        self.kind = str(facts["kinds"][0])
        self.of_weights = self.kind in WEIGHT_KINDS
        self.file = str(facts.get("file", ""))

    @classmethod
    def registered(
        cls, name: str, config_dir: Path | None = None, numbers: Mapping[str, list[Any]] | None = None
    ) -> Subject:
        """The one that `norm=NAME` chooses; of a preset that which it is one of."""
        name = str(compose.declaration("norm", name, config_dir).get("like", name))
        node, facts = compose.choice("norm", name, config_dir), compose.declaration("norm", name, config_dir)
        return cls(name, facts, {option: node[option] for option in facts.get("options") or {}}, numbers)

    def layouts(self) -> list[Axes]:
        layouts = WEIGHT_LAYOUTS if self.of_weights else LAYOUTS
        served, needed = set(self.facts["axes"]), set(self.facts.get("needs") or [])
        ordered = self.facts.get("layouts") or [list(axes) for axes in layouts]
        return [axes for axes in layouts if set(axes) <= served and needed <= set(axes) and list(axes) in ordered]

    def option_rows(self) -> Iterator[Options]:
        """The defaults, then rows in which every pair of values of two options occurs (all of them: 2^n rows)."""
        yield dict(self.defaults)
        yield from pairs({key: self._values(key, spec, self.defaults[key]) for key, spec in self.specs.items()})

    def _values(self, option: str, spec: Mapping[str, Any], default: Any) -> list[Any]:
        """The values to try for an option: both of a switch, every choice; `numbers` for numbers."""
        if option in self.numbers and isinstance(default, type(self.numbers[option][0])):
            return self.numbers[option]
        if spec.get("list"):
            return [default, list(spec["choices"])[::-1]] if "choices" in spec else [default]
        if spec["type"] == "bool":
            return [True, False]
        return list(spec["choices"]) if "choices" in spec else [default]

    def activations(self) -> list[str]:
        """The non-linearities that a block supports; any one for the others."""
        return list(self.facts.get("activations") or ["tanh"])

    def mode_dependent(self, options: Options) -> bool:
        fact = self.facts.get("mode_dependent")
        return bool(options[fact] if isinstance(fact, str) else fact)

    def refuses_single(self, axes: Axes, options: Options) -> bool:
        """Whether one value per feature, as in a batch of one at this layout, is refused."""
        return bool(sites.single_refused(self.facts, axes, options))

    def masks(self, axes: Axes, batch: int, seed: int) -> list[Tensor | None]:
        """No mask; and if it is read, sequences of mixed lengths, and a last step without any sequence."""
        if not self.facts.get("reads_mask") or "time" not in axes:
            return [None]
        empty = valid(batch, seed + 1)
        empty[:, -1] = False
        return [None, valid(batch, seed), empty]

    def inputs(self, axes: Axes, batch: int = 4, seed: int = 0, scale: float = 2.0, shift: float = 1.0) -> Tensor:
        if not self.of_weights:
            return draw(sizes(axes, batch), seed, scale, shift)
        shape = {2: (batch, INPUTS), 3: (batch, TIME, INPUTS), 4: (batch, INPUTS, 3, 3)}[len(axes)]
        return draw(shape, seed, scale, shift)

    def make(
        self, axes: Axes, options: Options, seed: int | None = 0, space: tuple[int, ...] = SPACE, **map_facts: Any
    ) -> nn.Module:
        """The module in float64, its parameters away from their start unless seed is None."""
        if self.of_weights:
            return self._make_map(axes, options, seed, **map_facts)
        choice = Choice(self.name, self.kind, dict(options), False, False, 1, self.file)
        module = base.build(site(axes, space), choice).double()
        return module if seed is None else _perturbed(module, 1.0, seed)

    def _make_map(
        self, axes: Axes, options: Options, seed: int | None, bias: bool = True, activation: str = ""
    ) -> nn.Module:
        activation = activation or self.activations()[0]
        where = Site("hidden.0", WEIGHT_KINDS, axes, UNITS, (2, 2) if "space" in axes else (), activation=activation)
        choice = Choice(self.name, self.kind, dict(options), bias, False, 1, self.file)
        act = FUNCTIONS[activation]
        form = partial(layers.NormedConv, kernel=KERNEL) if "space" in axes else layers.NormedLinear
        module: Any = form(INPUTS, where, choice, act).double()
        with torch.no_grad():
            module.linear.weight.copy_(draw(module.linear.weight.shape, 100 if seed is None else seed, 1.0, 0.0))
            if bias:
                module.linear.bias.zero_()
            module.start()
        return module if seed is None else _perturbed(module, 0.3, seed + 1)

    def settled(self, axes: Axes, options: Options) -> nn.Module:
        """The module in training mode, after a first minibatch if it needs one."""
        module = self.make(axes, options).train()
        if self.of_weights:
            with torch.no_grad():
                module(self.inputs(axes, batch=6, seed=77))
        return module

    def refusal(self, axes: Axes, options: Options) -> str:
        """Empty if the module can be made with these options; else the refusal."""
        try:
            self.make(axes, options)
        except NormbenchError as refusal:
            return str(refusal)
        return ""


@torch.no_grad()
def _perturbed(module: nn.Module, scale: float, seed: int) -> nn.Module:
    generator = torch.Generator().manual_seed(seed)
    for parameter in module.parameters():
        parameter.add_(scale * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype))
    return module


def pairs(factors: Mapping[str, list[Any]]) -> list[Options]:
    """Greedy all-pairs: each row starts from a pair not seen yet and takes, per factor, what adds most new ones."""
    names = list(factors)
    if len(names) == 1:
        return [{names[0]: value} for value in factors[names[0]]]

    def key(a: int, i: int, b: int, j: int) -> tuple[int, int, int, int]:
        return (a, i, b, j) if a < b else (b, j, a, i)

    counts = [len(values) for values in factors.values()]
    left = {
        (a, i, b, j)
        for a, b in itertools.combinations(range(len(names)), 2)
        for i, j in itertools.product(range(counts[a]), range(counts[b]))
    }
    rows = []
    while left:
        a, i, b, j = min(left)
        row = {a: i, b: j}
        for c in range(len(names)):
            if c not in row:
                gain = [sum(key(c, k, d, row[d]) in left for d in row) for k in range(counts[c])]
                row[c] = gain.index(max(gain))
        left -= {key(c, row[c], d, row[d]) for c, d in itertools.combinations(row, 2)}
        rows.append({names[c]: factors[names[c]][row[c]] for c in sorted(row)})
    return rows
