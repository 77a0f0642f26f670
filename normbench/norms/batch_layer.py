"""Batch layer normalization (Ziaee and Çano 2022), as its authors' code has it or as the paper writes it."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from normbench.core.eval_variants import DEFAULT, Variant
from normbench.norms import kernel
from normbench.norms.base import NO_PASS, Normalizer, affine, fixed_factor, gain_and_bias, normalizer
from normbench.norms.derivatives import differentiable
from normbench.norms.kernel import by_kernel
from normbench.norms.populations import Populations
from normbench.norms.running import Averaging
from normbench.norms.sites import Site

CONFIGURATIONS = tuple("".join(letters) for letters in itertools.product("TF", repeat=4))
EPS_V = {"code": 1e-3, "paper": 1e-4}
KINDS = ("slot", "pooled", "recalibrated")
Term = Callable[[str, str, Populations], Tensor]
LARGE = 1 << 15  # numbers from which the kernel takes less time than torch's two normalizers
GUARD = 1e-12  # the paper's standard deviation over features has no eps


@normalizer("batch_layer")
class BatchLayerNorm(Normalizer, Averaging):
    """y = gain * z + bias, z = [(1 - (1/m + eps_w)) x_B + (1/m - eps_w) x_F] / sqrt(d) (paper, eq. 16-17).

    x_B is normalized over the m samples, per position and feature (eq. 14); x_F over the d features, per sample and
    position (eq. 15). Biased moments; the gradient goes through all of them.

    Evaluation: four letters, for batch mean, batch standard deviation (std), feature mean and feature std. T takes the
    population's (over the batches of the last finished epoch, see `Populations`), F that of the evaluation batch.
    Evaluation splits its input into consecutive batches of the training size m, and 1/m is that of training. Before the
    first epoch is finished, populations are mean 0 and std 1.

    Args:
        mode: `code`: sqrt(v + eps_v) for both; populations average v, times m/(m - 1), inside the root. `paper`: no eps
            for features; populations average the stds, times m/(m - 1) (eq. 19, 21), and an F std is taken about
            the mean in force. (A smaller last batch of n enters the code's v_B with n/(n - 1) of its own.)
        populations: of features `slot`: one per place in the batch, as the code; `pooled`: one for all samples;
            `recalibrated`: pooled, and all four over a pass through the training batches with frozen weights instead
            of the epoch that moved them. There is such a pass before each evaluation.
        configuration: the letters of an evaluation; also_configurations: further ones in every evaluation. Variants are
            all 16, with other `populations` as well.
        eps_w, eps_v: of the weights and of the roots; eps_v 0 is the mode's own (code 1e-3, paper 1e-4).
        scale: `one` leaves the 1/sqrt(d) out, which neither batch nor layer normalization has.
        adopt, adopt_after: after so many epochs training itself goes on with the chosen statistics (Algorithm 2, step
            13): those of the population are of the last finished epoch, and no gradient goes through them.
        safe_m1: leaves out m/(m - 1) at m = 1, where the code makes NaN of every configuration with a T std.

    Shapes: x in the site's layout; every position in space and time has statistics of its own.
    Errors: sequences of another length than those before.
    Not the same as: `nn.BatchNorm2d` in x_B (per position here); `nn.LayerNorm` at m = 1: 0.9999/sqrt(d) of it.
    """

    stacks = True
    epochs: Tensor | None

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
        scale: str = "inverse_root_d",
        adopt: str = "none",
        adopt_after: int = 1,
    ) -> None:
        super().__init__(site)
        self.paper, self.factor = mode == "paper", fixed_factor(scale, site)
        pass_alone = populations == "recalibrated"
        self.gathers = pass_alone
        self.variants = tuple({"configuration": letters} for letters in also_configurations)
        self.configuration, self.populations = configuration, populations
        self.kinds = ("recalibrated",) if pass_alone else KINDS
        self.eps_w, self.eps_v = eps_w, eps_v or EPS_V[mode]
        self.eps_f = GUARD if self.paper else self.eps_v
        self.gain, self.bias = gain_and_bias([site.features], affine, bias, gain_init)
        self.adopt, self.adopt_after = adopt, adopt_after
        self.register_buffer("epochs", None if adopt == "none" else torch.zeros((), dtype=torch.int64))
        settings = (self.paper, self.eps_v, self.eps_f, safe_m1)
        self.trained = None if pass_alone and adopt == "none" else Populations(site, *settings)
        self.recalibrated = Populations(site, *settings)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        axis = self.site.feature_axis
        if axis != x.dim() - 1:
            return self._last(x.movedim(axis, -1)).movedim(-1, axis)
        return self._last(x)

    def _last(self, x: Tensor) -> Tensor:
        if not self.training:
            return self._by_population(x)
        if self.epochs is None or self.epochs < self.adopt_after:
            return self._by_batch(x)
        with torch.no_grad():
            self._by_batch(x)  # updates the populations
        return self._by_choice(x)

    def _by_choice(self, x: Tensor) -> Tensor:
        """A training batch normalized with the adopted statistics."""
        p, kind = self.trained, "pooled" if self.populations == "pooled" else "slot"
        assert p is not None
        p.refuse_other_sizes(p.feature_mean, x.shape[1:-1])
        by_batch, by_feature = self._halves(x[None], *self._weights(len(x)))
        z = by_batch(self.adopt[:2], kind, p) + by_feature(self.adopt[2:], kind, p)
        return affine(z[0], self.gain, self.bias, -1)

    def _weights(self, m: int) -> tuple[float, float]:
        return (1 - (1 / m + self.eps_w)) * self.factor, (1 / m - self.eps_w) * self.factor

    def _by_batch(self, x: Tensor) -> Tensor:
        populations = self.recalibrated if self.gathering else self.trained if self.track else None
        m = len(x)
        gain = x.new_ones(self.site.features) if self.gain is None else self.gain
        batch = 0 if populations is None else populations.count(x.shape)
        if x.numel() >= LARGE and m > 1 and not self.paper and self._alone() and by_kernel(x, gain):
            bias = torch.zeros_like(gain) if self.bias is None else self.bias
            more = self._weights(m), (self.eps_v, self.eps_f), lambda *given: self._built_in(*given)[0]
            y, mean, variance, mean_f, rstd_f = _Blend.apply(x, gain, bias, *more)
            if populations is not None:
                populations.average_batch(m, mean, variance * (m / (m - 1)))
                populations.add_features(mean_f, rstd_f)
            return y
        if populations is None or self.paper or m == 1:
            first = x.detach()[0].flatten()
            moments, momentum = (first.clone(), torch.zeros_like(first)), 1.0
        else:  # the built-in averages the variances over the epoch; deviations it cannot
            moments, momentum = (populations.epoch_batch_mean, populations.epoch_batch_std), 1 / batch
        y, mean_f, rstd_f = self._built_in(x, gain, self.bias, moments, momentum)
        if populations is not None:
            if self.paper or m == 1:
                populations.average_batch(m, *moments)
            populations.add_features(mean_f, rstd_f)
        return y

    @staticmethod
    def _alone() -> bool:
        """Whether nothing but this thread computes x: the kernel has one, and no trace sees what it does."""
        return torch.get_num_threads() == 1 and not torch.compiler.is_compiling()

    def _built_in(
        self,
        x: Tensor,
        gain: Tensor,
        bias: Tensor | None,
        moments: tuple[Tensor | None, Tensor | None] = (None, None),
        momentum: float = 0.0,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """y, and of the features mean and 1/std; the batch's moments go into the averages of `moments`."""
        m, d = len(x), self.site.features
        weight_b, weight_f = self._weights(m)
        flat, x_b = x if x.dim() == 2 else x.reshape(m, -1), None
        if m > 1:  # else x_B is zero; torch refuses one value
            each, positions = gain * weight_b, flat.shape[1] // d
            each = each if positions == 1 else each.repeat(positions)
            x_b = F.batch_norm(flat, *moments, each, None, True, momentum, self.eps_v)
        # after the batch's: its gradient of x then comes first, and autograd adds the other to it in place
        y, mean_f, rstd_f = torch.native_layer_norm(x, [d], gain * weight_f, bias, self.eps_f)
        if x_b is not None:
            y.add_(x_b if flat is x else x_b.view_as(x))  # in place: layer_norm's backward does not need its result
        return y, mean_f, rstd_f

    def begin_epoch(self) -> None:
        if self.trained is not None:
            self.trained.begin()

    def end_epoch(self) -> None:
        if self.trained is not None:
            self.trained.finish()
        if self.epochs is not None:
            self.epochs += 1

    @property
    def momentum(self) -> float | None:
        """Set by torch's `update_bn`, whose pass is an epoch here."""
        return self._momentum

    @momentum.setter
    def momentum(self, value: float | None) -> None:
        if self._momentum is None and value is not None:
            self.end_epoch()
        self._momentum = value

    def reset_running_stats(self) -> None:
        self.begin_epoch()

    def begin_pass(self) -> None:
        self.recalibrated.begin()

    def end_pass(self) -> None:
        self.recalibrated.finish()

    def _by_population(self, x: Tensor) -> Tensor:
        chosen = [self._chosen(variant) for variant in self.forward_context.variants]
        populations = [self._population(kind) for _, kind in chosen]
        examples = self.forward_context.examples or len(x)
        for population in populations:
            if population.samples:
                population.refuse_other_sizes(population.feature_mean, x.shape[1:-1])
            elif population is self.trained:
                self.warn_of_evaluation(
                    "no epoch of training is finished",
                    "Train each epoch inside `with normbench.epoch(model):`.",
                )
            else:
                self.warn_of_evaluation(*NO_PASS)
        x = x.unflatten(0, (-1, examples))  # (1 or variants, examples, *positions, d)
        sizes = [int(population.samples) or examples for population in populations]
        # before the end of the first epoch, populations of a pass have a size and the others none
        slices = [slice(None)] if len(set(sizes)) == 1 else [slice(k, k + 1) for k in range(len(sizes))]
        parts = [self._batches(x if len(x) == 1 else x[s], chosen[s], populations[s], sizes[s][0]) for s in slices]
        y = (parts[0] if len(parts) == 1 else torch.cat(parts)).flatten(0, 1)
        if torch.is_grad_enabled() or self.gain is None or self.bias is None:
            return affine(y, self.gain, self.bias, -1)
        return torch.addcmul(self.bias, y, self.gain, out=y)

    def _batches(
        self, x: Tensor, chosen: Sequence[tuple[str, str]], populations: Sequence[Populations], m: int
    ) -> Tensor:
        """x (1 or variants, examples, *positions, d) in batches of m -> (variants, examples, *positions, d)."""
        full = x.shape[1] // m * m
        parts = [x[:, :full].unflatten(1, (-1, m)), x[:, None, full:]]
        normalized = [self._normalized(part, chosen, populations, *self._weights(m)) for part in parts if part.numel()]
        z = [part.flatten(1, 2) for part in normalized]
        return z[0] if len(z) == 1 else torch.cat(z, 1)

    def _normalized(
        self, x: Tensor, chosen: Sequence[tuple[str, str]], populations: Sequence[Populations], *weights: float
    ) -> Tensor:
        """x (1 or variants, batches, m, *positions, d) -> (variants, batches, m, *positions, d)."""
        z = x.new_empty(len(chosen), *x.shape[1:]) if len(chosen) > 1 else None
        shared = self._halves(x[0], *weights) if len(x) == 1 else None  # all variants read the same x
        for variant, ((letters, kind), population) in enumerate(zip(chosen, populations, strict=True)):
            by_batch, by_feature = shared or self._halves(x[variant], *weights)
            halves = by_batch(letters[:2], kind, population), by_feature(letters[2:], kind, population)
            if z is None:
                return torch.add(*halves)[None]
            torch.add(*halves, out=z[variant])
        assert z is not None
        return z

    def _halves(self, x: Tensor, weight_b: float, weight_f: float) -> tuple[Term, Term]:
        """The two halves of z for x (batches, m, *positions, d), by their letters; each is computed once."""
        batch_mean, slots = x.mean(1, keepdim=True), x.shape[1]

        @functools.cache
        def by_batch(letters: str, kind: str, population: Populations) -> Tensor:
            mean = population.batch_mean if letters[0] == "T" else batch_mean
            return self._half(x, mean, population.batch_std, batch_mean, letters, 1, self.eps_v, weight_b)

        @functools.cache
        def by_feature(letters: str, kind: str, population: Populations) -> Tensor:
            if letters == "FF":  # the fused built-in
                return F.layer_norm(x, [x.shape[-1]], eps=self.eps_f) * weight_f
            feature_mean = x.mean(-1, keepdim=True)
            population_mean, population_std = (moment[:slots, ..., None] for moment in population.of_features(kind))
            mean = population_mean if letters[0] == "T" else feature_mean
            return self._half(x, mean, population_std, feature_mean, letters, -1, self.eps_f, weight_f)

        return by_batch, by_feature

    def _half(
        self, x: Tensor, mean: Tensor, std: Tensor, current: Tensor, letters: str, axis: int, eps: float, weight: float
    ) -> Tensor:
        centred = x - mean
        if letters[1] == "F":
            deviations = centred if self.paper or letters[0] == "F" else x - current
            std = (deviations.square().mean(axis, keepdim=True) + eps).sqrt()
        return centred * (weight / std)

    def _population(self, kind: str) -> Populations:
        populations = self.recalibrated if kind == "recalibrated" else self.trained
        assert populations is not None
        return populations

    def serves(self, variant: Variant) -> bool:
        choices = {"configuration": CONFIGURATIONS, "populations": self.kinds}
        return bool(variant) and all(value in choices.get(option, ()) for option, value in variant.items())

    def _chosen(self, variant: Variant) -> tuple[str, str]:
        served = variant if self.serves(variant) else DEFAULT
        return served.get("configuration", self.configuration), served.get("populations", self.populations)

    def computes(self, variant: Variant) -> Hashable:
        letters, kind = self._chosen(variant)
        of_features = "T" in letters[2:] or (kind == "recalibrated" and "T" in letters)
        return letters, kind if of_features else ""

    def by_pass(self, variant: Variant) -> bool:
        letters, kind = self._chosen(variant)
        return self.gathers or (kind == "recalibrated" and "T" in letters)


class _Blend(torch.autograd.Function):
    """Both normalizations, weighted, in one pass of the kernel.

    (x, gain, bias) -> y = gain (w_B x_B + w_F x_F) + bias, and the moments of x (m, *positions, d).
    x_B = (x - mu_B) / sqrt(v_B + eps_B) over the m samples, x_F the same over the d features. The moments have no
    gradients: mu_B, v_B (positions d), and mu_F, 1 / sqrt(v_F + eps_F) (m, *positions, 1). `definition` is y in torch's
    operations, for a backward pass with `create_graph`.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        gain: Tensor,
        bias: Tensor,
        weights: tuple[float, float],
        eps: tuple[float, float],
        definition: Callable[[Tensor, Tensor, Tensor], Tensor],
    ) -> tuple[Tensor, ...]:
        contiguous, y = x.contiguous(), torch.empty_like(x, memory_format=torch.contiguous_format)
        mean, variance, rstd = x.new_empty(3, x[0].numel())
        mean_f, rstd_f = x.new_empty(2, *x.shape[:-1], 1)
        ctx.sizes = len(x), x[0].numel() // x.shape[-1], x.shape[-1]
        ctx.weights, ctx.definition = weights, definition
        arrays = (contiguous, gain.contiguous(), bias.contiguous(), mean, variance, rstd, mean_f, rstd_f, y)
        kernel.call("blend_forward", *ctx.sizes, *weights, *eps, *arrays)
        ctx.save_for_backward(x, gain, bias, mean, rstd, mean_f, rstd_f)
        ctx.mark_non_differentiable(mean, variance, mean_f, rstd_f)
        return y, mean, variance, mean_f, rstd_f

    @staticmethod
    def backward(ctx: Any, dy: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        x, gain, bias, *moments = ctx.saved_tensors
        if torch.is_grad_enabled():
            return *differentiable(ctx.definition, (x, gain, bias), (dy,)), None, None, None
        dx, (dgain, dbias) = torch.empty_like(dy, memory_format=torch.contiguous_format), gain.new_empty(2, len(gain))
        scratch = x.new_empty(2, moments[0].numel())
        given = (x.contiguous(), gain.contiguous(), *moments, dy.contiguous())
        kernel.call("blend_backward", *ctx.sizes, *ctx.weights, *given, dx, dgain, dbias, scratch)
        return dx, dgain, dbias, None, None, None
