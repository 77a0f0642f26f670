"""Populations of batch layer normalization: averages of the batches' moments over an epoch, or over a pass."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from normbench.errors import BadInput
from normbench.norms.base import in_float32
from normbench.norms.running import average
from normbench.norms.sites import Site

HELD = 16  # batches whose feature moments are added up together: one large sum instead of many small operations


def keeps(method: Callable[..., None]) -> Callable[..., None]:
    """For methods that make tensors which are kept: those of `inference_mode` could take part in no training."""

    @functools.wraps(method)
    def wrapper(*args: Any) -> None:
        with torch.inference_mode(False), torch.no_grad():
            method(*args)

    return wrapper


class Populations(nn.Module):
    """Means and standard deviations (std) of the last finished epoch, and the sums of the unfinished one.

    BLN 2022, eq. 18-21, for batch and features alike; b: the batches, m: their size, v: biased variances:

        mean = mean_b(mu_b)
        std  = sqrt(m/(m - 1) mean_b(v_b) + eps_v), with `paper` m/(m - 1) mean_b(sqrt(v_b + eps_b))

    eps_b is eps_v for the batch, about 0 for features.
    A pass over the training batches with frozen weights is an epoch in this sense.
    Of the batch (*positions, d); of features (slots, *positions), a slot being a place in the batch, and pooled over
    all of them (1, *positions). Mean 0 and std 1 before the first epoch is finished. What is gathered of the
    batch's spread is the variance times n/(n - 1), which `F.batch_norm` leaves in `epoch_batch_std`, or with `paper`
    the std; of features the sums over the batches.
    """

    samples: Tensor
    counts: Tensor
    held_moments: Tensor
    batch_mean: Tensor
    batch_std: Tensor
    feature_mean: Tensor
    feature_std: Tensor
    pooled_mean: Tensor
    pooled_std: Tensor
    epoch_batch_mean: Tensor
    epoch_batch_std: Tensor
    epoch_feature_mean: Tensor
    epoch_feature_std: Tensor

    def __init__(self, site: Site, paper: bool, eps_v: float, eps_f: float, safe_m1: bool) -> None:
        super().__init__()
        self.path, self.features, self.paper = site.path, site.features, paper
        self.eps_v, self.eps_f, self.safe_m1 = eps_v, eps_f, safe_m1
        self.held: list[tuple[Tensor, Tensor]] = []  # feature means and 1/std of batches of one size
        self.batches = 0  # of this epoch
        self.register_buffer("samples", torch.tensor(0))  # the m of training; 0: no epoch is finished
        self.register_buffer("counts", torch.zeros(0, dtype=torch.int64))  # of batches that had this slot
        self.register_buffer("held_moments", torch.zeros(0))  # `held` in a state_dict
        # sizes of positions and of m come with the first batch
        for name, start in (("mean", torch.zeros), ("std", torch.ones)):
            for half in ("batch", "feature"):
                self.register_buffer(f"{half}_{name}", start(1))
                self.register_buffer(f"epoch_{half}_{name}", torch.zeros(0))
            self.register_buffer(f"pooled_{name}", start(1))

    def begin(self) -> None:
        """Forget the unfinished epoch."""
        self.held.clear()
        self.batches = 0
        for name, buffer in self.named_buffers():
            if name.startswith("epoch_") or name == "counts":
                buffer.zero_()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Populations:
        super()._apply(fn, recurse)
        # another device in the middle of an epoch
        self.held = [(in_float32(fn(mean), mean), in_float32(fn(rstd), rstd)) for mean, rstd in self.held]
        return self

    def count(self, shape: Sequence[int]) -> int:
        """The number of this batch (m, *positions, d) in its epoch; the sums have room for it afterwards."""
        if not self.held or self.held[0][0].shape[:-1] != shape[:-1]:
            self._add_up()
            self._make_room(shape[0], shape[1:-1])
        self.batches += 1
        return self.batches

    @torch.no_grad()
    def average_batch(self, m: int, mean: Tensor, variance: Tensor) -> None:
        """Average the batch's moments, where `F.batch_norm` did not: unbiased variance, or 0 for one sample."""
        if self.paper:
            variance = (variance * ((m - 1) / m) + self.eps_v).sqrt()
        average((self.epoch_batch_mean, self.epoch_batch_std), (mean, variance), 1 / self.batches)

    def add_features(self, mean: Tensor, rstd: Tensor) -> None:
        """Add mean and 1/sqrt(v + eps_f) of every sample and position, (m, *positions, 1) each."""
        self.held.append((mean.detach(), rstd.detach()))
        if len(self.held) == HELD:
            self._add_up()

    @keeps
    def _add_up(self) -> None:
        if not self.held:
            return
        mean, rstd = (torch.stack(moments).squeeze(-1) for moments in zip(*self.held, strict=True))
        m = mean.shape[1]
        self.counts[:m] += len(mean)
        self.epoch_feature_mean[:m] += mean.sum(0)
        self.epoch_feature_std[:m] += rstd.pow(-1 if self.paper else -2).sum(0)  # v + eps; eps goes at the end
        self.held.clear()

    @keeps
    def _make_room(self, m: int, positions: Sequence[int]) -> None:
        """For the positions of the first batch, and for as many slots as the largest batch has."""
        if len(self.counts):
            self.refuse_other_sizes(self.epoch_feature_mean, positions)
        more = m - len(self.counts)
        if more <= 0:
            return
        self.counts = F.pad(self.counts, (0, more))
        for name in ("mean", "std"):
            of_batch, of_feature = getattr(self, f"epoch_batch_{name}"), getattr(self, f"epoch_feature_{name}")
            if not len(of_batch):
                setattr(self, f"epoch_batch_{name}", of_batch.new_zeros(math.prod(positions) * self.features))
            rows = of_feature.new_zeros(more, *positions)
            setattr(self, f"epoch_feature_{name}", torch.cat([of_feature.view(-1, *positions), rows]))

    def refuse_other_sizes(self, population: Tensor, positions: Sequence[int]) -> None:
        """NormbenchError where positions differ from those of the statistics."""
        if population.shape[1:] != positions:
            raise BadInput(
                f"batch_layer at site '{self.path}' has statistics for positions of shape "
                f"{tuple(population.shape[1:])} and met {tuple(positions)}. Pad or cut to one length."
            )

    @keeps
    def finish(self) -> None:
        """The epoch is over: its averages are the populations from now on."""
        self._add_up()
        if not self.batches:
            return
        m, positions = len(self.counts), self.epoch_feature_mean.shape[1:]
        # at m = 1: 0 times infinity for the batch, infinity for features
        factor = m / (m - 1) if m > 1 else 1.0 if self.safe_m1 else math.inf
        count = self.counts.view(-1, *[1] * len(positions))
        of_slots = self.epoch_feature_mean, self.epoch_feature_std, count
        mean_f, std_f = self._of_features(factor, *of_slots)
        self.pooled_mean, self.pooled_std = self._of_features(factor, *(t.sum(0, True) for t in of_slots))
        mean_b, std_b = (t.view(*positions, -1).clone() for t in (self.epoch_batch_mean, self.epoch_batch_std))
        if self.paper:
            std_b = factor * std_b
        else:  # the batch's variances have had their n/(n - 1) from the built-in
            std_b = ((std_b * factor if m == 1 else std_b) + self.eps_v).sqrt()
        self.batch_mean, self.batch_std, self.feature_mean, self.feature_std = mean_b, std_b, mean_f, std_f
        self.samples.fill_(m)

    def _of_features(self, factor: float, mean: Tensor, spread: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and std from sums over `count` batches, of each slot or of all."""
        mean, spread = mean / count, spread / count
        if self.paper:
            return mean, factor * spread
        return mean, (factor * (spread - self.eps_f).clamp(min=0) + self.eps_v).sqrt()

    def of_features(self, kind: str) -> tuple[Tensor, Tensor]:
        """Mean and std, (slots, *positions), or (1, *positions) for all slots together."""
        if kind == "slot":
            return self.feature_mean, self.feature_std
        return self.pooled_mean, self.pooled_std

    @keeps
    def _save_to_state_dict(self, *args: Any) -> None:
        held = [torch.stack(pair) for pair in self.held]
        self.held_moments = torch.stack(held) if held else self.held_moments.new_zeros(0)
        super()._save_to_state_dict(*args)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        for name, buffer in list(self.named_buffers()):  # their sizes depend on the data
            if prefix + name in state_dict:
                setattr(self, name, buffer.new_empty(state_dict[prefix + name].shape))
        super()._load_from_state_dict(state_dict, prefix, *args)
        self.held = [(mean, rstd) for mean, rstd in self.held_moments]
        self.batches = len(self.held) + int(self.counts.max() if len(self.counts) else 0)
