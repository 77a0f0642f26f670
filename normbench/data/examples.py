"""Examples by named tensors: whole ones indexed at once, sequences of any lengths padded as a batch needs them."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from normbench.errors import BadInput, kind

MASK = "_mask"  # a ragged tensor `words` brings `words_mask` along


@dataclass(frozen=True)
class Ragged:
    """Sequences of any lengths, one after another: example i is `values[offsets[i]:offsets[i + 1]]`."""

    values: Tensor  # (places, ...)
    offsets: Tensor  # (examples + 1,) int64

    @classmethod
    def of(cls, sequences: Iterable[Tensor]) -> Ragged:
        parts = list(sequences)
        return cls(torch.cat(parts), torch.tensor([0, *map(len, parts)]).cumsum(0))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> Tensor:
        return self.offsets.diff()

    def padded(self, index: slice | Tensor) -> tuple[Tensor, Tensor]:
        """(B, T, ...) with zeros behind the shorter ones, and (B, T), true where a place is valid; T: the longest."""
        chosen = self[index]
        lengths = chosen.lengths
        mask = torch.arange(int(lengths.max()) if len(lengths) else 0, device=lengths.device) < lengths[:, None]
        values = self.values.new_zeros(*mask.shape, *self.values.shape[1:])
        values[mask] = chosen.values
        return values, mask

    def __getitem__(self, index: slice | Tensor) -> Ragged:
        """The sequences at `index`, in its order."""
        starts = self.offsets[:-1][index]
        lengths = self.offsets[1:][index] - starts
        offsets = F.pad(lengths.cumsum(0), (1, 0))
        places = torch.arange(int(offsets[-1]), device=offsets.device)
        return Ragged(self.values[places + (starts - offsets[:-1]).repeat_interleave(lengths)], offsets)

    def to(self, device: torch.device) -> Ragged:
        return Ragged(self.values.to(device), self.offsets.to(device))


@dataclass(frozen=True)
class Shared(Ragged):
    """Examples that have some of these sequences, in any order, some of them the same: example i has `places[i]`."""

    places: Tensor  # (examples,) int64

    def __len__(self) -> int:
        return len(self.places)

    @property
    def lengths(self) -> Tensor:
        return self.offsets.diff()[self.places]

    def __getitem__(self, index: slice | Tensor) -> Ragged:
        return super().__getitem__(self.places[index])

    def to(self, device: torch.device) -> Shared:
        return Shared(self.values.to(device), self.offsets.to(device), self.places.to(device))


class Batch(NamedTuple):
    """Some examples: tensors by name as the model takes them, and how many examples or places its mean is over."""

    tensors: dict[str, Tensor]
    size: int  # examples
    counted: int  # what a mean over the batch is over


class Split:
    """A part of a data set: examples by named tensors, the first axis of each (or its ragged sequences) the examples.

    `mean_over` names the mask whose valid places the model's loss is a mean over, such as `words_mask`; without one it
    is over the examples. `index` (N,) is each example's own number in the set, whatever order they come in here.
    `dropped`: the lengths of further examples that only fill up the batches of training, of which they are dropped.
    """

    def __init__(
        self,
        *,
        mean_over: str = "",
        index: Tensor | None = None,
        dropped: Tensor | None = None,
        **tensors: Tensor | Ragged,
    ) -> None:
        self.tensors: Mapping[str, Tensor | Ragged] = tensors
        self.mean_over, self.index, self.dropped = mean_over, index, dropped
        self.selected: frozenset[str] | None = None  # the tensors of a batch; None for all
        for name, tensor in tensors.items():
            if not isinstance(tensor, Tensor | Ragged):
                raise BadInput(f"Split: {name} is {kind(tensor)}, not a tensor of torch.")
        if len({len(tensor) for tensor in tensors.values()}) != 1:
            sizes = ", ".join(f"{name} {len(tensor)}" for name, tensor in tensors.items())
            raise BadInput(f"Split: all tensors must have the same number of examples, at least one tensor: {sizes}.")

    def __len__(self) -> int:
        return len(next(iter(self.tensors.values())))

    def __getitem__(self, name: str) -> Any:
        return self.tensors[name]

    @property
    def names(self) -> list[str]:
        """What a model can ask for: the tensors, and a mask with each ragged one."""
        ragged = [f"{name}{MASK}" for name, tensor in self.tensors.items() if isinstance(tensor, Ragged)]
        return [*self.tensors, *ragged]

    @property
    def lengths(self) -> Tensor | None:
        """Of the first ragged tensor; None where all examples are of one size."""
        return next((tensor.lengths for tensor in self.tensors.values() if isinstance(tensor, Ragged)), None)

    def only(self, names: Iterable[str], who: str = "the model", whose: str = "the data") -> Split:
        """With what `names` ask for alone; NormbenchError for a name that is not here."""
        names = list(names)
        wanted = [*names, *([self.mean_over] if self.mean_over else [])]
        for name in wanted:
            if name not in self.names:
                raise BadInput(f"{who} asks for the tensor '{name}', {whose} gives {', '.join(self.names)}.")
        chosen = {name: t for name, t in self.tensors.items() if name in wanted or f"{name}{MASK}" in wanted}
        return self._with(tensors=chosen, selected=frozenset(names))

    def with_tensors(self, tensors: Mapping[str, Tensor]) -> Split:
        """The same examples with these in the place of their own of these names."""
        return self._with(tensors={**self.tensors, **tensors})

    def _with(self, **attributes: Any) -> Split:
        made = copy.copy(self)
        vars(made).update(attributes)
        return made

    def every(self, stride: int) -> Split:
        """Every so many-th example, from the first on; each keeps its own number."""
        dropped = None if self.dropped is None else self.dropped[::stride]
        return self._part(slice(None, None, stride))._with(dropped=dropped)

    def first(self, count: int) -> Split:
        """The first so many examples; each keeps its own number."""
        return self._part(slice(count))

    def _part(self, rows: slice) -> Split:
        index = torch.arange(len(self)) if self.index is None else self.index
        chosen = {name: tensor[rows] for name, tensor in self.tensors.items()}
        return self._with(tensors=chosen, index=index[rows])

    def to(self, device: torch.device) -> Split:
        index = None if self.index is None else self.index.to(device)
        moved = {name: tensor.to(device) for name, tensor in self.tensors.items()}
        return self._with(tensors=moved, index=index)

    def numbers(self, index: slice | Tensor) -> Tensor | range:
        """The own numbers of the examples at `index`, by which what is drawn for one of them is keyed."""
        if self.index is not None:
            return self.index[index]
        return range(len(self))[index] if isinstance(index, slice) else index

    def batch(self, index: slice | Tensor) -> Batch:
        """The examples at `index`, ragged ones padded to their longest."""
        tensors: dict[str, Tensor] = {}
        for name, tensor in self.tensors.items():
            if isinstance(tensor, Ragged):
                tensors[name], tensors[f"{name}{MASK}"] = tensor.padded(index)
            else:
                tensors[name] = tensor[index]
        size = len(next(iter(tensors.values())))
        counted = int(tensors[self.mean_over].sum()) if self.mean_over else size
        if self.selected is not None and tensors.keys() != self.selected:
            tensors = {name: tensor for name, tensor in tensors.items() if name in self.selected}
        return Batch(tensors, size, counted)
