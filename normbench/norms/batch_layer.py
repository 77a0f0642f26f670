"""Batch layer normalization (Ziaee and Çano 2022), as its authors' code has it or as the paper writes it."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from normbench.norms.base import Normalizer, affine, gain_and_bias, normalizer
from normbench.norms.populations import Populations
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
        populations: of features `slot`: one per place in the batch, as the code; `pooled`: one for all samples;
            `recalibrated`: pooled, and all four over a pass through the training batches with frozen weights instead
            of the epoch that moved them. There is such a pass before each evaluation.
        also_populations: further ones for the configurations with a T; inference variants `populations=KIND` and
            `TTTT populations=KIND`.
        configuration: the letters of an evaluation; also_configurations: further ones in every evaluation. All 16 can
            be asked for by `inference(model, "TTFF")`.
        eps_w, eps_v: of the weights and of the roots; eps_v 0 is the mode's own (code 1e-3, paper 1e-4).
        safe_m1: leaves out m/(m - 1) at m = 1, where the code makes NaN of every configuration with a T deviation.

    Shapes: x in the site's layout; every position in space and time has statistics of its own.
    Errors: sequences of another length than those before.
    Not the same as: `nn.BatchNorm2d` in x_B (per position here); `nn.LayerNorm` at m = 1: 0.9999/sqrt(d) of it.
    """

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
        also_populations: Sequence[str] = (),
    ) -> None:
        super().__init__(site)
        self.paper = mode == "paper"
        pass_alone = populations == "recalibrated"
        self.gathers = pass_alone or "recalibrated" in also_populations
        # of each way of evaluation: its letters, and whether its populations are those of a pass
        self.ways = {"": (configuration, pass_alone)} | {letters: (letters, pass_alone) for letters in CONFIGURATIONS}
        self.variants = tuple(also_configurations)
        for kind in also_populations:
            self.ways |= {f"populations={kind}": (configuration, True)}
            self.ways |= {f"{letters} populations={kind}": (letters, True) for letters in CONFIGURATIONS}
            with_t = [letters for letters in also_configurations if "T" in letters]
            self.variants += (f"populations={kind}", *(f"{letters} populations={kind}" for letters in with_t))
        self.possible = tuple(self.ways)[1:]
        self.eps_w, self.eps_v = eps_w, eps_v or EPS_V[mode]
        self.eps_f = GUARD if self.paper else self.eps_v
        self.gain, self.bias = gain_and_bias([site.features], affine, bias, gain_init)
        how = (self.paper, self.eps_v, self.eps_f, safe_m1)
        self.trained = None if pass_alone else Populations(site, populations == "pooled", *how)
        self.recalibrated = Populations(site, True, *how) if self.gathers else None

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
        populations = self.recalibrated if self.gathering else self.trained if self.track else None
        m, d = len(x), self.site.features
        weight_b, weight_f = _tensors(*self._weights(m), x.dtype)
        gain = x.new_ones(d) if self.gain is None else self.gain
        flat, x_b = x if x.dim() == 2 else x.reshape(m, -1), None
        batch = 0 if populations is None else populations.count(x.shape)
        if populations is None or self.paper or m == 1:
            moments, momentum = _moments_of_one(flat), 1.0
        else:  # the built-in averages the variances over the epoch; deviations it cannot
            moments, momentum = (populations.epoch_batch_mean, populations.epoch_batch_std), 1 / batch
        if m > 1:  # else x_B is zero; torch refuses one value
            each, positions = gain * weight_b, flat.shape[1] // d
            each = each if positions == 1 else each.repeat(positions)
            x_b = F.batch_norm(flat, *moments, each, None, True, momentum, self.eps_v)
        # after the batch's: its gradient of x then comes first, and autograd adds the other to it in place
        y, mean_f, rstd_f = torch.native_layer_norm(x, [d], gain * weight_f, self.bias, self.eps_f)
        if x_b is not None:
            y.add_(x_b if flat is x else x_b.view_as(x))  # in place: layer_norm's backward does not need its result
        if populations is not None:
            if self.paper or m == 1:
                populations.average_batch(m, *moments)
            populations.add_features(mean_f, rstd_f)
        return y

    def begin_epoch(self) -> None:
        if self.trained is not None:
            self.trained.begin()

    def end_epoch(self) -> None:
        if self.trained is not None:
            self.trained.finish()

    def begin_pass(self) -> None:
        if self.recalibrated is not None:
            self.recalibrated.begin()

    def end_pass(self) -> None:
        if self.recalibrated is not None:
            self.recalibrated.finish()

    def _by_population(self, x: Tensor) -> Tensor:
        letters, by_pass = self.ways[self.variant]
        populations = self.recalibrated if by_pass else self.trained
        assert populations is not None
        m = int(populations.samples) or len(x)
        if populations.samples:
            populations.refuse_other_sizes(populations.feature_mean, x.shape[1:-1])
        whole = len(x) // m * m
        parts = [part for part in (x[:whole].unflatten(0, (-1, m)), x[whole:][None]) if part.numel()]
        weights = self._weights(m)
        z = torch.cat([self._normalized(part, populations, letters, *weights).flatten(0, 1) for part in parts])
        return affine(z, self.gain, self.bias, -1)

    def _normalized(self, x: Tensor, p: Populations, letters: str, weight_b: float, weight_f: float) -> Tensor:
        """x (batches, m, *positions, d)."""
        n, z = x.shape[1], torch.zeros_like(x)
        terms = (
            (p.batch_mean, p.batch_std, letters[:2], 1, self.eps_v, weight_b),
            (p.feature_mean[:n, ..., None], p.feature_std[:n, ..., None], letters[2:], -1, self.eps_f, weight_f),
        )
        for mean, std, letter, axis, eps, weight in terms:
            own = x.mean(axis, keepdim=True)
            mean = mean if letter[0] == "T" else own
            if letter[1] == "F":
                std = ((x - (mean if self.paper else own)).square().mean(axis, keepdim=True) + eps).sqrt()
            z = z + weight * (x - mean) / std
        return z


def _moments_of_one(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of the first row alone, (values,) each."""
    first = x.detach()[0]
    return first.clone(), torch.zeros_like(first)


@functools.cache
def _tensors(weight_b: float, weight_f: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The weights in the type of the data: a number would be converted at every product with a gain."""
    return torch.tensor(weight_b, dtype=dtype), torch.tensor(weight_f, dtype=dtype)
