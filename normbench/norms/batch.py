"""Batch normalization (Ioffe and Szegedy 2015), with the choices that papers and frameworks make differently."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from normbench.core.eval_variants import DEFAULT, Variant
from normbench.errors import BadInput
from normbench.norms.base import NO_PASS, Normalizer, affine, fixed_factor, gain_and_bias, normalizer
from normbench.norms.fused import BATCH, FIXED, VALID, FusedSpec
from normbench.norms.running import Averaging, average
from normbench.norms.sequence_batch import Places, by_valid
from normbench.norms.sites import Site


@normalizer("batch")
class BatchNorm(Normalizer, Averaging):
    """y = gain * (x - mu_B) / sqrt(var_B + eps) + bias, moments over batch, time and space axes per feature.

    Training normalizes with the batch and updates r <- (1 - momentum) r + momentum s; evaluation uses r. The LN
    paper's eq. 2 uses the population expectation and no eps.

    Args:
        unbiased_norm: n/(n-1) variance in the normalization as well (LN 2016, 6.6, "the unbiased estimator").
        unbiased_running: n/(n-1) variance in the running average (as PyTorch; Keras does not for 2-D inputs).
        eval_stats: `running`; `batch`: evaluation normalizes with its own batch; `per_step_pass`: with the
            unweighted average of the moments over a pass through the training batches with frozen weights, before each
            evaluation, per time step where `stats` is (Cooijmans et al. 2016, popstats.py of their attentive reader);
            steps beyond the last one seen use its average. Mean 0 and variance 1 before the first pass.
            Variants `eval_stats` are `running` and `batch`; with `batch` an evaluation goes by batches of the training
            size. After a pass also `pooled_pass`: its means and variances averaged over the steps as well, which
            Cooijmans et al. 2016 found to degrade performance (section 3).
        also_momenta: further running averages; each is a variant `momentum` in every evaluation.
        allow_single: one value per feature gives `bias` (as Keras); otherwise it is an error.
        stats: where the site has time. `pooled`: all steps together, padding included (BN-everywhere's feed-forward
            sites). `sequence`: all valid positions together (Laurent et al. 2015; BN-e*). `per_step`: each step by
            itself (Cooijmans et al. 2016), with running averages for `t_max` steps; the last serves later ones.
        use_mask: `per_step` leaves padding out. A step with one valid value gives `bias`, one without any too.
        single_running: what `allow_single` permits also enters the running averages, with variance 0 (as Keras).
        positions: where the site has space. `pooled`: all positions together; `separate`: statistics and running
            averages for each, over the batch alone, as BLN's batch half; gain and shift stay per feature.
        scale: `inverse_root_d` divides by the root of the number of features before gain and shift, as BLN does.

    Shapes: x in the site's layout with the batch first, mask (batch, time), True where valid.
    Not the same as `nn.BatchNorm1d` for one value per feature, and for `unbiased_norm`, which PyTorch lacks.
    """

    running_mean: Tensor
    running_var: Tensor
    pass_mean: Tensor
    pass_var: Tensor
    pass_batches: Tensor
    batch_mean: Tensor
    batch_var: Tensor

    def __init__(
        self,
        site: Site,
        *,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        bias: bool = True,
        gain_init: float = 1.0,
        unbiased_norm: bool = False,
        unbiased_running: bool = True,
        eval_stats: str = "running",
        also_momenta: Sequence[float] = (),
        allow_single: bool = False,
        stats: str = "pooled",
        t_max: int = 100,
        use_mask: bool = False,
        single_running: bool = False,
        positions: str = "pooled",
        scale: str = "one",
    ) -> None:
        super().__init__(site)
        self.eps, self.allow_single, self.single_running = eps, allow_single, single_running
        self.unbiased_norm, self.unbiased_running = unbiased_norm, unbiased_running
        self.gain, self.bias = gain_and_bias([site.features], affine, bias, gain_init)
        self.momentum, self.eval_stats = momentum, eval_stats
        self.momenta = [momentum, *dict.fromkeys(also_momenta)]
        self.variants = tuple({"momentum": other} for other in self.momenta[1:])
        self.gathers = eval_stats == "per_step_pass"
        self.factor = fixed_factor(scale, site)
        self.places = Places(site, stats, t_max, use_mask, positions)
        rows = [len(self.momenta), *([self.places.count] if self.places.axes else [])]
        self.register_buffer("running_mean", torch.zeros(*rows, site.features))
        self.register_buffer("running_var", torch.ones(*rows, site.features))
        if self.gathers:
            self.register_buffer("pass_mean", torch.zeros(self.places.count, site.features))
            self.register_buffer("pass_var", torch.ones(self.places.count, site.features))
            # with values at this step
            self.register_buffer("pass_batches", torch.zeros(self.places.count, 1, dtype=torch.int64))
        # F.batch_norm with momentum 1 writes the batch's own moments here, for every running average to share
        self.register_buffer("batch_mean", torch.zeros(site.features), persistent=False)
        self.register_buffer("batch_var", torch.ones(site.features), persistent=False)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.places.normalize(x, mask, self._channels)

    def serves(self, variant: Variant) -> bool:
        always = {"eval_stats": "running"}, {"eval_stats": "batch"}
        return variant in (*self.variants, *always) or (self.gathers and variant == {"eval_stats": "pooled_pass"})

    def by_batch(self, variant: Variant) -> bool:
        return self._statistics(variant if self.serves(variant) else DEFAULT) == "batch"

    def by_pass(self, variant: Variant) -> bool:
        return self._statistics(variant if self.serves(variant) else DEFAULT) == "per_step_pass"

    def _statistics(self, variant: Variant) -> str:
        """The statistics that an evaluation normalizes with; a variant `momentum` is one of the running averages."""
        return str(variant.get("eval_stats", "running" if "momentum" in variant else self.eval_stats))

    def step(self, x: Tensor, t: int, mask: Tensor | None = None) -> Tensor:
        if not self.places.per_step:
            raise BadInput(
                f"batch normalization at site '{self.site.path}' stands inside a time loop, where each step is "
                "normalized before the next is known. Set norm.stats=per_step."
            )
        return self._channels(x, range(t, t + 1), None if mask is None else mask[:, None].expand(x.shape))

    def fused(self) -> FusedSpec | None:
        if not self.places.per_step or self.unbiased_norm or self.factor != 1:
            return None
        kind = (VALID if self.places.masked else BATCH) if self.by_own_batch else FIXED
        return FusedSpec(kind, self.eps, self.gain, self.bias, population=self.population, learn=self.learn)

    def _channels(self, x: Tensor, steps: range, valid: Tensor | None) -> Tensor:
        """y for x (batch, features x steps, ...) of these steps; `valid`: the positions that count."""
        if self.by_own_batch:
            return self._by_batch(x, steps, valid if self.places.masked else None)
        mean, variance = (moment.movedim(0, -1).flatten() for moment in self.population(steps))
        gain, bias = self._each(len(steps))
        return F.batch_norm(x, mean, variance, gain, bias, eps=self.eps)

    @property
    def by_own_batch(self) -> bool:
        """Whether it normalizes with the current batch, in the current mode and variant."""
        return self.training or self._statistics(self.variant) == "batch"

    def population(self, steps: range) -> tuple[Tensor, Tensor]:
        """Mean and variance of an evaluation: of these steps, (steps, features), or of all together, (features,)."""
        statistics = self._statistics(self.variant)
        if statistics in ("per_step_pass", "pooled_pass"):
            mean, variance, gathered = self.pass_mean, self.pass_var, self.pass_batches.nonzero()
            last = int(gathered[-1, 0]) if len(gathered) else 0
            if not len(gathered):
                self.warn_of_evaluation(*NO_PASS)
            if statistics == "pooled_pass":
                mean, variance = (moment[: last + 1].mean(0).expand_as(moment) for moment in (mean, variance))
        else:
            row = self.momenta.index(self.variant["momentum"], 1) if "momentum" in self.variant else 0
            mean, variance = self.running_mean[row], self.running_var[row]
            last = len(mean) - 1
        if mean.dim() == 2:
            rows = torch.arange(steps.start, steps.stop, device=mean.device).clamp(max=last)
            mean, variance = mean[rows], variance[rows]
        return mean, variance

    def _each(self, steps: int) -> tuple[Tensor | None, Tensor | None]:
        """Gain, with the fixed factor, and bias for every channel: steps share them."""
        gain: Tensor | None = self.gain
        bias: Tensor | None = self.bias
        if self.factor != 1:
            gain = (torch.ones_like(self.batch_mean) if gain is None else gain) * self.factor
        if steps == 1:
            return gain, bias
        gain, bias = (p if p is None else p.repeat_interleave(steps) for p in (gain, bias))
        return gain, bias

    def _by_batch(self, x: Tensor, steps: range, valid: Tensor | None) -> Tensor:
        if valid is not None:
            y, moments, valid_count = by_valid(x, valid, self.eps, self.unbiased_norm, *self._each(len(steps)))
            self._update(*moments, valid_count.clamp(min=1), steps, valid_count > 0)
            return y
        channels = x.shape[1]
        count = x.numel() // channels
        if count == 1:
            return self._single(x, steps)
        (gain, bias), eps = self._each(len(steps)), self.eps
        if self.unbiased_norm:
            # 1/sqrt(v n/(n-1) + eps) = sqrt((n-1)/n) / sqrt(v + eps (n-1)/n): exact, on the fused built-in
            shrink = (count - 1) / count
            eps = eps * shrink
            gain = (x.new_ones(channels) if gain is None else gain) * shrink**0.5
        mean, variance = self.batch_mean, self.batch_var
        if channels != len(mean):
            mean, variance = mean.new_zeros(channels), mean.new_ones(channels)
        y = F.batch_norm(x, mean, variance, gain, bias, training=True, momentum=1.0, eps=eps)
        self._update(mean, variance, count, steps)
        return y

    @torch.no_grad()
    def learn(self, mean: Tensor, variance: Tensor, count: Tensor) -> None:
        """Update the averages by a backend's moments of steps 0, 1, ... of a batch, (steps, features) each.

        The variance is biased; count (steps, 1) is the number of values.
        """
        mean, biased, valid_count = (part.T.flatten() for part in (mean, variance, count.to(mean).expand_as(mean)))
        count = valid_count.clamp(min=1)
        unbiased = biased * count / (count - 1).clamp(min=1)
        self._update(mean, unbiased, count, range(len(mean) // self.site.features), valid_count > 0)

    @torch.no_grad()
    def _update(
        self, mean: Tensor, variance: Tensor, count: int | Tensor, steps: range, has_values: Tensor | None = None
    ) -> None:
        """Update the running averages, or those of a pass, with the variance that `unbiased_running` asks for."""
        if not (self.training and (self.track or self.gathering)):
            return
        if not self.unbiased_running:
            variance = variance * ((count - 1) / count)
        place = slice(None)
        if self.places.axes or self.gathering:
            stored = len(self.pass_mean) if self.gathering else self.running_mean.shape[1]
            mean, variance = (self.places.rows(moment, steps, stored) for moment in (mean, variance))
            has_values = None if has_values is None else self.places.rows(has_values, steps, stored)
            place = slice(steps.start, steps.start + len(mean))
        if not self.gathering:
            if self.momentum is None:
                shares = [self._plain_share(steps)] * len(self.momenta)
            else:
                shares = [self.momentum, *self.momenta[1:]]
            for row, row_share in enumerate(shares):
                running = self.running_mean[row, place], self.running_var[row, place]
                average(running, (mean, variance), row_share, has_values)
            return
        batches = self.pass_batches[place]
        batches += 1 if has_values is None else has_values.any(1, keepdim=True)
        share = 1 / batches.clamp(min=1).to(mean.dtype)
        average((self.pass_mean[place], self.pass_var[place]), (mean, variance), share, has_values)

    def _plain_share(self, steps: range) -> float:
        """In a time loop all steps of a batch have the share of its first."""
        return self.share() if steps.start == 0 else 1 / max(self.averaged, 1)

    def begin_pass(self) -> None:
        self.pass_mean.zero_()
        self.pass_var.fill_(1)
        self.pass_batches.zero_()

    def _single(self, x: Tensor, steps: range) -> Tensor:
        if not self.allow_single:
            raise BadInput(
                f"batch normalization at site '{self.site.path}' met one value per feature. Use larger batches, or "
                "norm.allow_single=true."
            )
        if self.single_running:
            value = x.detach().flatten()
            self._update(value, torch.zeros_like(value), 1, steps)
        y = x * 0.0  # keeps the graph: the gradient is zero, as it is for one value
        return affine(y, None, self._each(len(steps))[1], 1)
