"""Which examples make the batch of an update: pure functions of seed and update, so that resuming needs no state."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from normbench.core.streams import stream
from normbench.data.examples import Split
from normbench.errors import BadInput


class Sampler:
    """Batches of `count` examples. The updates of an epoch go once through all of them, but for `infinite`.

    shuffled: a permutation cut into batches, the last one smaller unless `drop_last`. lengths_in_turn: every batch has
    one of the `lengths`, and those that are left over of a length make a smaller one; lengths take turns, in an order
    of the epoch's, until they have no batch left (code of skip-thoughts). infinite: permutations one after another,
    batches of one size across their ends. in_order: as the data have them. `reshuffle` false: every epoch in the order
    of the first.

    dropped: lengths of further examples, which are dropped from the batches that they come into. An epoch of which a
    batch would be empty has its first one again in the place of it; code of skip-thoughts goes on to the next epoch.
    """

    def __init__(
        self,
        kind: str,
        count: int,
        batch_size: int,
        seed: int,
        reshuffle: bool = True,
        drop_last: bool = False,
        lengths: Tensor | None = None,
        dropped: Tensor | None = None,
    ) -> None:
        self.by_length = kind == "lengths_in_turn"  # batches of several sizes
        if self.by_length and lengths is None:
            raise BadInput(f"train.sampler={kind} needs sequences of several lengths: the data have one size.")
        if kind in ("infinite", "in_order") and dropped is not None:
            raise BadInput(
                f"train.sampler={kind} does not go with data.filter=after: the examples that are dropped from batches "
                "have no place in it. Take another, or data.filter=before."
            )
        if lengths is not None and dropped is not None:
            lengths = torch.cat([lengths.cpu(), dropped.to(lengths)])
        self.examples, self.drops = count, dropped is not None
        count += 0 if dropped is None else len(dropped)
        self.kind, self.count, self.batch_size, self.seed = kind, count, batch_size, seed
        self.reshuffle, self.drop_last = reshuffle, drop_last
        self.lengths = None if lengths is None else lengths.cpu().numpy()
        self._cached: tuple[int, list[Tensor]] = (0, [])
        if self.by_length:
            assert self.lengths is not None
            whole = np.unique(self.lengths, return_counts=True)[1]
            self.per_epoch = int((whole // batch_size if drop_last else -(-whole // batch_size)).sum())
        else:
            self.per_epoch = count // batch_size if drop_last and kind != "infinite" else -(-count // batch_size)
        if not self.per_epoch:
            raise BadInput(f"train.drop_last leaves no batch of {batch_size} of {count} training examples.")

    @classmethod
    def of(cls, train: Mapping[str, Any], seed: int, split: Split) -> Sampler:
        """The one that the configuration's `train` asks for."""
        kind, size, reshuffle, drop_last = (train[key] for key in ("sampler", "batch_size", "reshuffle", "drop_last"))
        return cls(kind, len(split), size, seed, reshuffle, drop_last, split.lengths, split.dropped)

    def batch(self, update: int) -> Tensor:
        """Indices of the examples of an update, counted from 0 over the whole run."""
        if self.kind == "infinite":
            return self._across(update * self.batch_size)
        epoch, place = divmod(update, self.per_epoch)
        if self._cached[0] != epoch + 1:
            self._cached = (epoch + 1, self._epoch(epoch + 1))
        return self._cached[1][place % len(self._cached[1])]

    def once(self, draw: np.random.Generator) -> list[Tensor]:
        """The batches of a pass that is no epoch of training, in an order of its own or the data's."""
        order = self._permutation(1) if self.kind == "in_order" else draw.permutation(self.count)
        return self._left(batch for group in self._cut(order) for batch in group)

    def _permutation(self, epoch: int) -> np.ndarray:
        if self.kind == "in_order":
            return np.arange(self.count)
        return stream(self.seed, "order", epoch if self.reshuffle else 1).permutation(self.count)

    def _across(self, first: int) -> Tensor:
        """`batch_size` examples from place `first` of all permutations."""
        parts, left = [], self.batch_size
        while left:
            epoch, place = divmod(first, self.count)
            if self._cached[0] != epoch + 1:
                self._cached = (epoch + 1, [torch.from_numpy(self._permutation(epoch + 1))])
            parts.append(self._cached[1][0][place : place + left])
            first, left = first + len(parts[-1]), left - len(parts[-1])
        return torch.cat(parts)

    def _epoch(self, epoch: int) -> list[Tensor]:
        cut = self._cut(self._permutation(epoch))
        if self.by_length:
            draw = stream(self.seed, "order of batches", epoch if self.reshuffle else 1)
            cut = [cut[place] for place in draw.permutation(len(cut))]
        turns = itertools.zip_longest(*cut)
        return self._left(batch for turn in turns for batch in turn if batch is not None)

    def _cut(self, order: np.ndarray) -> list[tuple[Tensor, ...]]:
        """An order of the examples in batches; those of one length by themselves where that is asked for."""
        groups = [order]
        if self.by_length:
            assert self.lengths is not None
            order = order[np.argsort(self.lengths[order], kind="stable")]
            groups = np.split(order, np.flatnonzero(np.diff(self.lengths[order])) + 1)
        cut = [torch.from_numpy(group).split(self.batch_size) for group in groups]
        if self.drop_last and self.kind != "infinite":
            cut = [tuple(batch for batch in group if len(batch) == self.batch_size) for group in cut]
        return cut

    def _left(self, batches: Iterable[Tensor]) -> list[Tensor]:
        """These without the examples that are dropped, and without those of which nothing is left."""
        if not self.drops:
            return list(batches)
        return [left for batch in batches if len(left := batch[batch < self.examples])]
