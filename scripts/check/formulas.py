"""Normalizers, the LN authors' GRU, two codes' Adam, in plain tensor operations; features: the last axis of x."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn


def moments(x: Tensor, axes: int | tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Mean and biased variance, the axes kept."""
    mean = x.mean(axes, keepdim=True)
    return mean, (x - mean).square().mean(axes, keepdim=True)


class Affine(nn.Module):
    """gain * x + shift, per feature."""

    def __init__(self, d: int, gain: float = 1.0, shift: bool = True) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.full((d,), gain))
        self.shift = nn.Parameter(torch.zeros(d)) if shift else 0.0

    def affine(self, x: Tensor) -> Tensor:
        return self.gain * x + self.shift


class LayerNorm(Affine):
    """Over the features of one sample at one position (LN eq. 3); `scale`: a fixed factor before gain and shift."""

    def __init__(self, d: int, eps: float, scale: float = 1.0) -> None:
        super().__init__(d)
        self.eps, self.scale = eps, scale

    def forward(self, x: Tensor) -> Tensor:
        mean, variance = moments(x, -1)
        return self.affine(self.scale * (x - mean) / (variance + self.eps).sqrt())


class BatchNorm(Affine):
    """Per feature over all else, or over the samples alone, separately for each of `steps` steps; running averages.

    x is (batch, ..., d); with `steps` (batch, time, d), or (batch, d) of the step `at`. Steps beyond the last that has
    averages use that one's. `unbiased`: n/(n - 1) in the variance that normalizes; `unbiased_running`: in the average.
    """

    mean: Tensor
    variance: Tensor

    def __init__(
        self,
        d: int,
        eps: float,
        momentum: float,
        *,
        steps: int = 0,
        gain: float = 1.0,
        shift: bool = True,
        scale: float = 1.0,
        unbiased: bool = False,
        unbiased_running: bool = True,
    ) -> None:
        super().__init__(d, gain, shift)
        self.eps, self.momentum, self.steps, self.scale = eps, momentum, steps, scale
        self.unbiased, self.unbiased_running = unbiased, unbiased_running
        self.register_buffer("mean", torch.zeros(max(steps, 1), d))
        self.register_buffer("variance", torch.ones(max(steps, 1), d))

    def forward(self, x: Tensor, at: int = 0) -> Tensor:
        count = x.shape[1] if self.steps and x.dim() == 3 else 1
        steps = (at + torch.arange(count)).clamp(max=max(self.steps, 1) - 1)
        mean, variance = self.mean[steps], self.variance[steps]
        if self.training:
            mean, biased = moments(x, 0 if self.steps else tuple(range(x.dim() - 1)))
            n = x.numel() // mean.numel()
            unbiased = biased * (n / max(n - 1, 1))
            variance = unbiased if self.unbiased else biased
            with torch.no_grad():
                for running, new in ((self.mean, mean), (self.variance, unbiased if self.unbiased_running else biased)):
                    running[steps] += self.momentum * (new.reshape(count, -1) - running[steps])
        return self.affine(self.scale * (x - mean) / (variance + self.eps).sqrt())


class BatchLayerNorm(Affine):
    """BLN as its authors' code has it: eps 1e-3 in the roots, 1e-4 in the weights, divided by the root of d.

    x is (samples, ..., d), normalized in batches of m. `letters` of an evaluation: batch mean, batch variance, feature
    mean, feature variance; T: of the population, F: of the batch at hand. The population is the plain average over the
    last epoch's batches, of features for each place in the batch, variances times m/(m - 1).
    """

    def __init__(self, d: int, m: int) -> None:
        super().__init__(d)
        self.m, self.d, self.letters = m, d, "FFFF"

    def begin_epoch(self) -> None:
        self.batches, self.sums = 0, [torch.zeros(()) for _ in range(4)]

    def end_epoch(self) -> None:
        factor = self.m / (self.m - 1) if self.m > 1 else math.inf
        means = [total / self.batches for total in self.sums]
        self.population = [mean * factor if i % 2 else mean for i, mean in enumerate(means)]

    def forward(self, x: Tensor) -> Tensor:
        x = x.unflatten(0, (-1, self.m))
        used = [*moments(x, 1), *moments(x, -1)]
        if self.training:
            self.batches += 1
            self.sums = [total + moment.detach() for total, moment in zip(self.sums, used, strict=True)]
        else:
            used = [self.population[i] if letter == "T" else used[i] for i, letter in enumerate(self.letters)]
        of_batch, of_features = ((x - used[i]) / (used[i + 1] + 1e-3).sqrt() for i in (0, 2))
        z = (1 - (1 / self.m + 1e-4)) * of_batch + (1 / self.m - 1e-4) * of_features
        return self.affine(z / math.sqrt(self.d)).flatten(0, 1)


class GRU(nn.Module):
    """The states (B, T, H) of a GRU over x (B, T, I), from h; where the mask (B, T) is false, h stays as it is.

    [r; u] = sigmoid(LN(h U) + LN(x W + b)), n = tanh(r * LN(h Ux) + LN(x Wx + bx)), h <- u h + (1 - u) n: the LN
    authors' `lngru_layer`, and `gru_layer` without LN. W, Wx: U(-0.1, 0.1); U (two blocks), Ux: orthogonal; b, bx: 0.
    """

    def __init__(self, inputs: int, units: int, ln: bool) -> None:
        super().__init__()
        self.W, self.Wx = uniform(inputs, 2 * units), uniform(inputs, units)
        self.U = nn.Parameter(torch.cat([orthogonal(units), orthogonal(units)], 1))
        self.Ux = nn.Parameter(orthogonal(units))
        self.b, self.bx = nn.Parameter(torch.zeros(2 * units)), nn.Parameter(torch.zeros(units))
        sizes = {"input_gates": 2, "input_candidate": 1, "hidden_gates": 2, "hidden_candidate": 1}
        self.norms = nn.ModuleDict(
            {name: LayerNorm(n * units, 1e-5) if ln else nn.Identity() for name, n in sizes.items()}
        )

    def forward(self, x: Tensor, mask: Tensor, h: Tensor) -> Tensor:
        norms, states = self.norms, []
        gates, candidate = norms["input_gates"](x @ self.W + self.b), norms["input_candidate"](x @ self.Wx + self.bx)
        for t in range(x.shape[1]):
            r, u = (norms["hidden_gates"](h @ self.U) + gates[:, t]).sigmoid().chunk(2, -1)
            n = (r * norms["hidden_candidate"](h @ self.Ux) + candidate[:, t]).tanh()
            h = torch.where(mask[:, t, None], u * h + (1 - u) * n, h)
            states.append(h)
        return torch.stack(states, 1)


def uniform(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape).uniform_(-0.1, 0.1))


def orthogonal(n: int) -> Tensor:
    """Left singular vectors of a normal matrix."""
    return torch.linalg.svd(torch.randn(n, n))[0]


def clip(gradients: Iterable[Tensor], most: float) -> bool:
    """All of them as one vector, scaled to the length `most` where it is longer; whether it was."""
    gradients = list(gradients)
    norm = math.sqrt(sum(g.square().sum().item() for g in gradients))
    for g in gradients:
        g *= min(1.0, most / norm)
    return norm > most


class Adam:
    """p <- p - rate(t) m / (sqrt(v) + eps), b1 0.9, b2 0.999, eps 1e-8; then no gradients."""

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float) -> None:
        self.lr, self.t = lr, 0
        self.state = [(p, torch.zeros_like(p), torch.zeros_like(p)) for p in parameters]

    def rate(self) -> float:
        raise NotImplementedError

    @torch.no_grad()
    def step(self) -> None:
        self.t += 1
        for p, m, v in self.state:
            assert p.grad is not None
            m.mul_(0.9).add_(p.grad, alpha=0.1)
            v.mul_(0.999).addcmul_(p.grad, p.grad, value=0.001)
            p.addcdiv_(m, v.sqrt().add_(1e-8), value=-self.rate())
            p.grad = None


class KerasAdam(Adam):
    """Of tf.keras: the rate is lr sqrt(1 - b2^t) / (1 - b1^t)."""

    def rate(self) -> float:
        return self.lr * math.sqrt(1 - 0.999**self.t) / (1 - 0.9**self.t)


class KirosAdam(Adam):
    """Of order-embedding and skip-thoughts, whose code has 1 - b where b belongs."""

    def rate(self) -> float:
        return self.lr * math.sqrt(1 - 0.001**self.t) / (1 - 0.1**self.t)
