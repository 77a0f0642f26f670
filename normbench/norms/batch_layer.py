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
            taken about the mean in force.
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
    batches: Tensor
    counts: Tensor
    batch_mean: Tensor
    batch_std: Tensor
    feature_mean: Tensor
    feature_std: Tensor
    sum_batch_mean: Tensor
    sum_batch_std: Tensor
    sum_feature_mean: Tensor
    sum_feature_std: Tensor

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
        self.register_buffer("batches", torch.tensor(0))
        self.register_buffer("counts", torch.zeros(0, dtype=torch.int64))  # batches that had this slot
        # sizes of positions and of m come with the first batch
        for name, start in (("mean", torch.zeros), ("std", torch.ones)):
            for of in ("batch", "feature"):
                self.register_buffer(f"{of}_{name}", start(1))
                self.register_buffer(f"sum_{of}_{name}", torch.zeros(0))

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
        moments = flat.detach()[0].clone(), flat.new_zeros(flat.shape[1])  # those of one sample
        if m > 1:  # else x_B is zero; torch refuses one value
            each, positions = gain * weight_b, flat.shape[1] // d
            each = each if positions == 1 else each.repeat(positions)
            # momentum 1 writes the batch's own moments, the variance unbiased; layer_norm does not need its result
            y.add_(F.batch_norm(flat, *moments, each, None, True, 1.0, self.eps_v).view_as(x))
        if self.track:
            self._accumulate(m, *moments, mean_f.detach().view(m, -1), rstd_f.detach().view(m, -1), x.shape[1:-1])
        return y

    @torch.no_grad()
    def _accumulate(
        self, m: int, mean_b: Tensor, var_b: Tensor, mean_f: Tensor, rstd_f: Tensor, positions: Sequence[int]
    ) -> None:
        var_b = var_b * ((m - 1) / m)
        if self.paper:
            spread_b, spread_f = (var_b + self.eps_v).sqrt(), rstd_f.reciprocal()
        else:
            spread_b, spread_f = var_b, rstd_f.square().reciprocal().sub_(self.eps_f).clamp_(min=0)
        if len(self.counts) < m or self.sum_feature_mean.shape[1:] != positions:
            self._make_room(m, positions)
        self.sum_batch_mean += mean_b.view_as(self.sum_batch_mean)
        self.sum_batch_std += spread_b.view_as(self.sum_batch_std)
        self.sum_feature_mean[:m] += mean_f.view(m, *positions)
        self.sum_feature_std[:m] += spread_f.view(m, *positions)
        self.counts[:m] += 1
        self.batches += 1

    def _make_room(self, m: int, positions: Sequence[int]) -> None:
        """Sums for the positions of the first batch, and for as many slots as the largest batch has."""
        if len(self.counts):
            self._refuse_other_sizes(self.sum_feature_mean, positions)
        more = m - len(self.counts)
        self.counts = F.pad(self.counts, (0, more))
        for name in ("mean", "std"):
            of_batch, of_feature = getattr(self, f"sum_batch_{name}"), getattr(self, f"sum_feature_{name}")
            if not len(of_batch):
                setattr(self, f"sum_batch_{name}", of_batch.new_zeros(*positions, self.site.features))
            rows = of_feature.new_zeros(more, *positions)
            setattr(self, f"sum_feature_{name}", torch.cat([of_feature.view(-1, *positions), rows]))

    def _refuse_other_sizes(self, population: Tensor, positions: Sequence[int]) -> None:
        if population.shape[1:] != positions:
            raise NormbenchError(
                f"batch_layer at site '{self.site.path}' has statistics for positions of shape "
                f"{tuple(population.shape[1:])} and met {tuple(positions)}. Pad or cut to one length."
            )

    def begin_epoch(self) -> None:
        for name, buffer in self.named_buffers():
            if name.startswith("sum_") or name in ("batches", "counts"):
                buffer.zero_()

    def end_epoch(self) -> None:
        if not self.batches:
            return
        m = len(self.counts)
        factor = m / (m - 1) if m > 1 else 1.0 if self.safe_m1 else math.inf
        for of in ("batch", "feature"):
            mean, spread = getattr(self, f"sum_{of}_mean"), getattr(self, f"sum_{of}_std")
            count = self.batches
            if of == "feature":
                count = self.counts.view(-1, *[1] * (mean.dim() - 1))
                if self.pooled:
                    mean, spread, count = mean.sum(0, True), spread.sum(0, True), count.sum()
            spread = factor * (spread / count)  # at m = 1: 0 times infinity for the batch, infinity for features
            setattr(self, f"{of}_mean", mean / count)
            setattr(self, f"{of}_std", spread if self.paper else (spread + self.eps_v).sqrt())
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
