"""Normalizers as users write them, in ways that no one here is written; each reads nothing of what a pass asks."""

import torch
import torch.nn.functional as F
from torch import nn

from normbench.norms.base import Normalizer, normalizer


@normalizer("buffers")
class Buffers(Normalizer):
    def __init__(self, site):
        super().__init__(site)
        self.register_buffer("mean", torch.zeros(site.features))
        self.register_buffer("var", torch.ones(site.features))

    def forward(self, x, mask=None):
        return F.batch_norm(x, self.mean, self.var, training=self.training)


@normalizer("assigned")
class Assigned(Normalizer):
    """A buffer that is another tensor after each pass, in evaluation as well, and a parameter without gradients."""

    def __init__(self, site):
        super().__init__(site)
        self.register_buffer("mean", torch.zeros(site.features))
        self.u = nn.Parameter(torch.ones(site.features), requires_grad=False)

    def forward(self, x, mask=None):
        self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
        self.u.mul_(0.9).add_(0.1 * x.detach().std(0))
        return (x - self.mean) / (self.u + 0.1)


@normalizer("lazy")
class Lazy(Normalizer):
    def __init__(self, site):
        super().__init__(site)
        self.inner = nn.Sequential(nn.LazyBatchNorm1d(), nn.LazyLinear(site.features), nn.Dropout(0.1))

    def forward(self, x, mask=None):
        return self.inner(x)


@normalizer("dropped")
class Dropped(Normalizer):
    def __init__(self, site):
        super().__init__(site)
        self.norm, self.start = nn.LayerNorm(site.features), nn.Parameter(torch.randn(site.features))

    def forward(self, x, mask=None):
        return F.dropout(self.norm(x) + self.start, 0.1, self.training)


class _OwnBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, square):
        square.lerp_(x.square().mean(0), 0.1)
        ctx.save_for_backward(square.clone())
        return x / (square + 1e-5).sqrt()

    @staticmethod
    def backward(ctx, gradient):
        return gradient / (ctx.saved_tensors[0] + 1e-5).sqrt(), None


@normalizer("own_backward")
class OwnBackward(Normalizer):
    def __init__(self, site):
        super().__init__(site)
        self.register_buffer("square", torch.ones(site.features))

    def forward(self, x, mask=None):
        return _OwnBackward.apply(x, self.square)


@normalizer("scripted")
class Scripted(Normalizer):
    def __init__(self, site):
        super().__init__(site)
        self.inner = torch.jit.script(nn.BatchNorm1d(site.features))

    def forward(self, x, mask=None):
        return self.inner(x)


@normalizer("bare")
class Bare(Normalizer):
    """No parameters, no buffers, and noise in evaluation as well."""

    def forward(self, x, mask=None):
        return x - x.mean(-1, keepdim=True) + 0.01 * torch.randn_like(x)


@normalizer("images")
class Images(Normalizer):
    def __init__(self, site):
        super().__init__(site)
        self.inner, self.drop = nn.BatchNorm2d(site.features), nn.Dropout2d(0.1)

    def forward(self, x, mask=None):
        _, channels, _, _ = x.shape
        return self.drop(self.inner(x)).view(-1, channels, *x.shape[2:])


@normalizer("plain")
class PlainModule(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.inner, self.drop = nn.BatchNorm1d(features), nn.Dropout(0.1)

    def forward(self, x):
        return self.drop(self.inner(x))
