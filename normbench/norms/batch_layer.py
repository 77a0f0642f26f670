"""Batch layer normalization (Ziaee and Çano 2022), as its authors' code has it or as the paper writes it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from normbench.errors import NormbenchError
from normbench.norms.base import Normalizer, affine, gain_and_bias, normalizer
from normbench.norms.sites import Site

CONFIGURATIONS = tuple("".join(letters) for letters in itertools.product("TF", repeat=4))
EPS_V = {"code": 1e-3, "paper": 1e-4}
GUARD = 1e-12  # the paper's feature deviation has no eps


@normalizer("batch_layer")
class BatchLayerNorm(Normalizer):
    """y = gain * z + bias, z = [(1 - (1/m + eps_w)) x_B + (1/m - eps_w) x_F] / sqrt(d) (paper, eq. 16-17).

    x_B is normalized over the m samples, per position and feature (eq. 14); x_F over the d features, per sample and
    position (eq. 15). Biased moments; the gradient goes through all of them.

    Evaluation: four letters say for batch mean, batch deviation, feature mean, feature deviation whether they are of
    the population (T: over the batches of the last finished epoch) or of the evaluation batch (F). Evaluation goes
    through consecutive batches of the training m, however many samples come at once, and 1/m stays that of training.
    Before the first epoch is finished, populations are mean 0 and deviation 1.

    Args:
        mode: `code`: sqrt(v + eps_v) for both; populations average v, times m/(m - 1), inside the root. `paper`: no eps
            for features; populations average the deviations, times m/(m - 1) (eq. 19, 21), and an F deviation is
            taken about the mean in force. (A smaller last batch of n enters the code's v_B with n/(n - 1) of its own.)
        populations: of features `slot`: one per place in the batch, as the code; `pooled`: one for all samples.
        configuration: the letters of an evaluation; also_configurations: further ones in every evaluation. All 16 can
            be asked for by `inference(model, "TTFF")`.
        eps_w, eps_v: of the weights and of the roots; eps_v 0 is the mode's own (code 1e-3, paper 1e-4).
        safe_m1: leaves out m/(m - 1) at m = 1, where the code makes NaN of every configuration with a T deviation.

    Shapes: x in the site's layout; every position in space and time has statistics of its own.
    Errors: sequences of another length than those before.
    Not the same as: `nn.BatchNorm2d` in x_B (per position here); `nn.LayerNorm` at m = 1: 0.9999/sqrt(d) of it.
    """

    samples: Tensor
    counts: Tensor
    batch_mean: Tensor
    batch_std: Tensor
    feature_mean: Tensor
    feature_std: Tensor
    epoch_batch_mean: Tensor
    epoch_batch_std: Tensor
    epoch_feature_mean: Tensor
    epoch_feature_std: Tensor

    def __init__(
        self,
        site: Site,
        *,
        mode: str = "code",
        populations: str = "slot",
        configuration: str = "TTFF",
        also_configurations: Sequence[str] = (),
        eps_w: float = 1e-4,
        eps_v: float = 0.0,
        safe_m1: bool = False,
        affine: bool = True,
        bias: bool = True,
        gain_init: float = 1.0,
    ) -> None:
        super().__init__(site)
        self.paper, self.pooled, self.safe_m1 = mode == "paper", populations == "pooled", safe_m1
        self.configuration, self.variants, self.possible = configuration, tuple(also_configurations), CONFIGURATIONS
        self.eps_w, self.eps_v = eps_w, eps_v or EPS_V[mode]
        self.eps_f = GUARD if self.paper else self.eps_v
        self.gain, self.bias = gain_and_bias([site.features], affine, bias, gain_init)
        self.register_buffer("samples", torch.tensor(0))  # the m of training; 0: no epoch is finished
        self.register_buffer("counts", torch.zeros(0, dtype=torch.int64))  # batches of this epoch that had this slot
        # sizes of positions and of m come with the first batch
        for name, start in (("mean", torch.zeros), ("std", torch.ones)):
            for of in ("batch", "feature"):
                self.register_buffer(f"{of}_{name}", start(1))
                self.register_buffer(f"epoch_{of}_{name}", torch.zeros(0))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        axis = self.site.feature_axis
        if axis != x.dim() - 1:
            return self._last(x.movedim(axis, -1)).movedim(-1, axis)
        return self._last(x)

    def _last(self, x: Tensor) -> Tensor:
        return self._by_batch(x) if self.training else self._by_population(x)

    def _weights(self, m: int) -> tuple[float, float]:
        root = math.sqrt(self.site.features)
        return (1 - (1 / m + self.eps_w)) / root, (1 / m - self.eps_w) / root

    def _by_batch(self, x: Tensor) -> Tensor:
        m, d = len(x), self.site.features
        weight_b, weight_f = self._weights(m)
        gain = x.new_ones(d) if self.gain is None else self.gain
        y, mean_f, rstd_f = torch.native_layer_norm(x, [d], gain * weight_f, self.bias, self.eps_f)
        flat = x.reshape(m, -1)
        batch = self._count(m, x.shape[1:-1]) if self.track else 0
        directly = batch and not self.paper  # the built-in averages the variances over the epoch; deviations it cannot
        moments = (self.epoch_batch_mean, self.epoch_batch_std) if directly else _moments_of_one(flat)
        if m > 1:  # else x_B is zero; torch refuses one value
            each, positions = gain * weight_b, flat.shape[1] // d
            each = each if positions == 1 else each.repeat(positions)
            x_b = F.batch_norm(flat, *moments, each, None, True, 1 / batch if directly else 1.0, self.eps_v)
            y.add_(x_b.view_as(x))  # in place: layer_norm's backward does not need its result
        if batch:
            if m == 1 or not directly:
                self._average(m, batch, *(_moments_of_one(flat) if m == 1 else moments))
            self._add_features(m, mean_f.detach(), rstd_f.detach())
        return y

    def _count(self, m: int, positions: Sequence[int]) -> int:
        """How many batches the epoch has with this one."""
        if len(self.counts) < m or self.epoch_feature_mean.shape[1:] != positions:
            self._make_room(m, positions)
        (self.counts if len(self.counts) == m else self.counts[:m]).add_(1)
        return int(self.counts[0])

    @torch.no_grad()
    def _average(self, m: int, batch: int, mean: Tensor, variance: Tensor) -> None:
        if self.paper:
            variance = (variance * ((m - 1) / m) + self.eps_v).sqrt()
        self.epoch_batch_mean.lerp_(mean, 1 / batch)
        self.epoch_batch_std.lerp_(variance, 1 / batch)

    @torch.no_grad()
    def _add_features(self, m: int, mean: Tensor, rstd: Tensor) -> None:
        means, spreads = self.epoch_feature_mean, self.epoch_feature_std
        if len(means) != m:
            means, spreads = means[:m], spreads[:m]
        means += mean.view_as(means)
        spreads += (rstd if self.paper else rstd.square()).reciprocal().view_as(spreads)  # v + eps; eps goes at the end

    def _make_room(self, m: int, positions: Sequence[int]) -> None:
        """For the positions of the first batch, and for as many slots as the largest batch has."""
        if len(self.counts):
            self._refuse_other_sizes(self.epoch_feature_mean, positions)
        more, each = m - len(self.counts), math.prod(positions) * self.site.features
        self.counts = F.pad(self.counts, (0, more))
        for name in ("mean", "std"):
            of_batch, of_feature = getattr(self, f"epoch_batch_{name}"), getattr(self, f"epoch_feature_{name}")
            if not len(of_batch):
                setattr(self, f"epoch_batch_{name}", of_batch.new_zeros(each))
            rows = of_feature.new_zeros(more, *positions)
            setattr(self, f"epoch_feature_{name}", torch.cat([of_feature.view(-1, *positions), rows]))

    def _refuse_other_sizes(self, population: Tensor, positions: Sequence[int]) -> None:
        if population.shape[1:] != positions:
            raise NormbenchError(
                f"batch_layer at site '{self.site.path}' has statistics for positions of shape "
                f"{tuple(population.shape[1:])} and met {tuple(positions)}. Pad or cut to one length."
            )

    def begin_epoch(self) -> None:
        for name, buffer in self.named_buffers():
            if name.startswith("epoch_") or name == "counts":
                buffer.zero_()

    def end_epoch(self) -> None:
        if not len(self.counts) or not self.counts[0]:
            return
        m, positions = len(self.counts), self.epoch_feature_mean.shape[1:]
        # at m = 1: 0 times infinity for the batch, infinity for features
        factor = m / (m - 1) if m > 1 else 1.0 if self.safe_m1 else math.inf
        count = self.counts.view(-1, *[1] * len(positions))
        mean_f, std_f = self.epoch_feature_mean, self.epoch_feature_std
        if self.pooled:
            mean_f, std_f, count = mean_f.sum(0, True), std_f.sum(0, True), count.sum()
        mean_f, std_f = mean_f / count, std_f / count
        mean_b, std_b = (t.view(*positions, -1).clone() for t in (self.epoch_batch_mean, self.epoch_batch_std))
        if self.paper:
            std_b, std_f = factor * std_b, factor * std_f
        else:  # the batch's variances have had their n/(n - 1) from the built-in
            std_b = ((std_b * factor if m == 1 else std_b) + self.eps_v).sqrt()
            std_f = (factor * (std_f - self.eps_f).clamp(min=0) + self.eps_v).sqrt()
        self.batch_mean, self.batch_std, self.feature_mean, self.feature_std = mean_b, std_b, mean_f, std_f
        self.samples.fill_(m)

    def _by_population(self, x: Tensor) -> Tensor:
        m = int(self.samples) or len(x)
        whole = len(x) // m * m
        parts = [part for part in (x[:whole].unflatten(0, (-1, m)), x[whole:][None]) if part.numel()]
        z = torch.cat([self._normalized(part, *self._weights(m)).flatten(0, 1) for part in parts])
        return affine(z, self.gain, self.bias, -1)

    def _normalized(self, x: Tensor, weight_b: float, weight_f: float) -> Tensor:
        """x (batches, m, *positions, d)."""
        if self.samples:
            self._refuse_other_sizes(self.feature_mean, x.shape[2:-1])
        n, z = x.shape[1], torch.zeros_like(x)
        populations = (
            (self.batch_mean, self.batch_std, 1, self.eps_v, weight_b),
            (self.feature_mean[:n, ..., None], self.feature_std[:n, ..., None], -1, self.eps_f, weight_f),
        )
        letters = [letter == "T" for letter in self.variant or self.configuration]
        for (mean, std, axis, eps, weight), of_mean, of_std in zip(
            populations, letters[::2], letters[1::2], strict=True
        ):
            own = x.mean(axis, keepdim=True)
            mean = mean if of_mean else own
            if not of_std:
                std = ((x - (mean if self.paper else own)).square().mean(axis, keepdim=True) + eps).sqrt()
            z = z + weight * (x - mean) / std
        return z

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        for name, buffer in list(self.named_buffers()):  # their sizes are those of the data that they saw
            if prefix + name in state_dict:
                setattr(self, name, buffer.new_empty(state_dict[prefix + name].shape))
        super()._load_from_state_dict(state_dict, prefix, *args)


def _moments_of_one(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of the first row alone, (values,) each."""
    first = x.detach()[0]
    return first.clone(), torch.zeros_like(first)
