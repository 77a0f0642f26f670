"""Weights of torch's own normalizers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from normbench.errors import NormbenchError
from normbench.norms.batch import BatchNorm
from normbench.norms.group import GroupNorm
from normbench.norms.instance import InstanceNorm
from normbench.norms.layer import LayerNorm
from normbench.norms.rms import RMSNorm

Facts = dict[str, tuple[Any, Any]]  # properties that must be equal: ours, torch's

# our class: torch's, and the properties that must be equal besides eps, gain and shift
SAME: dict[type[nn.Module], tuple[type[nn.Module], Callable[[Any, Any], Facts]]] = {
    LayerNorm: (
        nn.LayerNorm,
        lambda ours, theirs: {
            "the normalized shape": (tuple(ours.shape), theirs.normalized_shape),
            "eps_mode": (ours.eps_mode, "in"),
            "the factor of scale": (ours.factor, 1.0),
        },
    ),
    RMSNorm: (
        nn.RMSNorm,
        lambda ours, theirs: {
            "the normalized shape": ((ours.site.features,), theirs.normalized_shape),
            "eps_mode": (ours.eps_mode, "in"),
            "the number of features in the root": (ours.used, ours.site.features),
        },
    ),
    GroupNorm: (
        nn.GroupNorm,
        lambda ours, theirs: {
            "the number of channels": (ours.site.features, theirs.num_channels),
            "num_groups": (ours.num_groups, theirs.num_groups),
            "a time axis of steps by themselves": ("time" in ours.site.axes, False),
        },
    ),
    InstanceNorm: (
        _InstanceNorm,
        lambda ours, theirs: {
            "the number of channels": (ours.site.features, theirs.num_features),
            "track_running_stats": (ours.running, theirs.track_running_stats),
            "momentum": (ours.momentum, theirs.momentum if ours.running else ours.momentum),
            "a time axis of steps by themselves": ("time" in ours.site.axes, False),
        },
    ),
    BatchNorm: (
        _BatchNorm,
        lambda ours, theirs: {
            "the number of features": (ours.site.features, theirs.num_features),
            "eval_stats": (ours.eval_stats, "running" if theirs.track_running_stats else "batch"),
            "the list of momenta": (ours.momenta, [theirs.momentum] if theirs.track_running_stats else ours.momenta),
            "statistics of steps or positions apart, or with a mask": (
                bool(ours.places.axes) or ours.places.masked,
                False,
            ),
            "unbiased_norm": (ours.unbiased_norm, False),
            "unbiased_running": (ours.unbiased_running, True),
            "the factor of scale": (ours.factor, 1.0),
        },
    ),
}


@torch.no_grad()
def load_norm(ours: nn.Module, theirs: nn.Module) -> None:
    """Give a normalizer the gain, shift and running averages of torch's module with the same formula.

    >>> import torch
    >>> from normbench import create_norm, load_torch
    >>> norm, theirs = create_norm("batch", 8, momentum=0.2), torch.nn.BatchNorm1d(8, momentum=0.2)
    >>> load_torch(norm, theirs)

    `nn.LayerNorm`, `nn.RMSNorm`, `nn.GroupNorm`, `nn.InstanceNorm*` and `nn.BatchNorm*`; the order of axes stays ours.
    torch's momentum is ours; `num_batches_tracked` counts for `momentum=None` alone, which is refused.
    Errors: NormbenchError for modules of two kinds, and for a difference in their formulas.
    """
    torchs, compare = SAME.get(type(ours), (type(None), None))
    there = f"torch's {type(theirs).__name__}"
    if compare is None or not isinstance(theirs, torchs):
        raise NormbenchError(f"{type(ours).__name__} does not compute what {there} computes.")
    norm: Any = ours
    other: dict[str, Any] = {**vars(theirs), **theirs._parameters, **theirs._buffers}
    gain, shift = other["weight"], other.get("bias")
    least = torch.finfo(torch.get_default_dtype() if gain is None else gain.dtype).eps
    facts: Facts = {
        **compare(ours, theirs),
        "eps": (norm.eps, least if other["eps"] is None else other["eps"]),  # None: nn.RMSNorm's own
        "a gain": (norm.gain is not None, gain is not None),
        "a shift": (norm.bias is not None, shift is not None),
    }
    for what, (here, its) in facts.items():
        if here != its:
            raise NormbenchError(f"norm={norm.site.path} and {there} differ: {what} is {here} here and {its} there.")
    pairs = [(norm.gain, gain), (norm.bias, shift)]
    if other.get("running_mean") is not None:
        pairs += [(norm.running_mean, other["running_mean"]), (norm.running_var, other["running_var"])]
    for mine, tensor in pairs:
        if mine is not None:
            mine.copy_(tensor)
