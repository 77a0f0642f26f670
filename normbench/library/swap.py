"""The norms of a network of one's own, exchanged for any normalizer."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from normbench.errors import BadInput, unknown
from normbench.library.norms import create_norm, find

KINDS = (nn.LayerNorm, nn.RMSNorm, nn.BatchNorm1d, nn.BatchNorm2d, nn.GroupNorm)
LAST, SECOND = "... feature", "batch feature ..."  # axes of x, where its rank is not known


def swap(
    model: nn.Module,
    which: str | type[nn.Module] | tuple[type[nn.Module], ...],
    norm: str | Mapping[str, Any],
    *,
    features: int | Callable[[nn.Module], int] | None = None,
    axes: str | None = None,
    copy: bool = False,
    **options: Any,
) -> list[str]:
    """Put a normalizer in the place of a network's norms, in the network itself; returns the names that it changed.

    >>> from torch import nn
    >>> from normbench import swap
    >>> model = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.ReLU(), nn.Linear(16, 2))
    >>> swap(model, nn.LayerNorm, "dyt")
    ['1']
    >>> swap(nn.TransformerEncoderLayer(16, 2), "norm*", "rms", eps=1e-6)
    ['norm1', 'norm2']

    Args:
        which: a class, or several in a tuple, with their subclasses; or a pattern of names as `named_modules()` has
            them, where `*` stands for anything: `"*.norm1"`.
        norm: as of `create_norm`: a name of `normbench list norms`, or the path of a file of one's own.
        features: the number of features, where it cannot be read: of a class that is none of those below, with `axes`.
            For several sizes a function of what is replaced: `lambda norm: norm.weight.numel()`.
        axes: those of x, as of `create_norm`; or `"... feature"` or `"batch feature ..."`, where `...` is any number of
            axes, whose positions are rows of features. Read from `nn.LayerNorm` and `nn.RMSNorm` of one axis (the
            first of these two), `nn.BatchNorm2d`, and `nn.BatchNorm1d` and `nn.GroupNorm` (the second; a normalizer
            that takes the positions of an example together asks for its `axes`).
        copy: take over gains and shifts of a norm of torch; without it they start at the normalizer's own values.
        options: of the normalizer. Without them eps, and whether there is a gain and a shift, are those of what is
            replaced where the normalizer has such an option; all others have the defaults of `conf/norm/NAME.yaml`.

    Type, device and training mode are those of what is replaced; a module with several names is replaced by one module.
    Random numbers are drawn only if a normalizer of one's own draws some, so other weights are those of the same seed.
    Swap before the network is compiled or wrapped, before its optimizer is made, and before weights that were stored
    after a swap are loaded. `batch_layer` also needs `normbench.epoch`.

    Not done and not checked: whether the network is causal or pads (statistics of batches, as `batch` has them, mix
    later steps and padding into each position); calls of functions, such as `F.layer_norm`; running statistics, hooks
    and `requires_grad` of what is replaced; biases before it, which stay; code that reads attributes of a norm, such as
    its `weight`. Transformer layers of torch evaluate by their ordinary path, which is slower, and without nested
    tensors.
    Errors: NormbenchError, before anything is changed, where nothing matches, and where a normalizer cannot stand.
    """
    chosen = _chosen(model, which)
    replacements: dict[nn.Module, nn.Module] = {}
    for name, old in chosen.items():
        if old not in replacements:
            try:
                replacements[old] = _replacement(model, old, norm, features, axes, copy, options)
            except BadInput as error:
                raise BadInput(f"swap at '{name}': {error}") from None
    for name, old in chosen.items():
        model.set_submodule(name, replacements[old])
    for module in model.modules():
        if isinstance(module, nn.TransformerEncoder) and any(isinstance(part, Swapped) for part in module.modules()):
            module.use_nested_tensor = False  # it would read weights of its norms in evaluation
    return [*chosen]


class Swapped(nn.Module):
    """A normalizer in the place of another module. at: the feature axis of x of any rank, given to it as rows."""

    # nn.TransformerEncoderLayer evaluates in one call that computes nn.LayerNorm, unless the eps of its norms differ:
    # this one differs from itself.
    eps = math.nan

    def __init__(self, norm: nn.Module, at: int | None) -> None:
        super().__init__()
        self.norm, self.at = norm, at

    def forward(self, x: Tensor) -> Tensor:
        if self.at is None:
            return self.norm(x)
        rows = x.movedim(self.at, -1)
        y: Tensor = self.norm(rows.reshape(-1, rows.shape[-1]))
        return y.view(rows.shape).movedim(-1, self.at)


def _chosen(model: nn.Module, which: str | type[nn.Module] | tuple[type[nn.Module], ...]) -> dict[str, nn.Module]:
    """The modules to replace, by all their names."""
    named = dict(model.named_modules(remove_duplicate=False))
    if isinstance(which, str):
        modules = {module for name, module in named.items() if fnmatchcase(name, which)}
    else:
        modules = {module for module in named.values() if isinstance(module, which)}
    if not modules:
        norms = {name: type(module).__name__ for name, module in named.items() if isinstance(module, KINDS)}
        if isinstance(which, str):
            raise unknown(f"swap: no module of the network is named '{which}'.", which, norms or named)
        kinds = which if isinstance(which, tuple) else (which,)
        wanted = " or ".join(kind.__name__ for kind in kinds)
        leaves = {type(module).__name__ for module in named.values() if not [*module.children()]}
        raise unknown(f"swap: the network has no {wanted}.", wanted, sorted(set(norms.values()) or leaves))
    if model in modules:
        raise BadInput(
            f"swap: {type(model).__name__} is the whole network, which cannot change its own class. "
            "Name modules inside it, or make the normalizer by normbench.create_norm."
        )
    chosen = {name: module for name, module in named.items() if module in modules}
    for name, module in chosen.items():
        if inner := [*modules.intersection(module.modules()) - {module}]:
            raise BadInput(
                f"swap: '{name}' ({type(module).__name__}) holds another match, {type(inner[0]).__name__}. "
                "Name the norms alone."
            )
    return chosen


def _replacement(
    model: nn.Module,
    old: nn.Module,
    norm: str | Mapping[str, Any],
    features: int | Callable[[nn.Module], int] | None,
    axes: str | None,
    copy: bool,
    options: Mapping[str, Any],
) -> Swapped:
    size, order = _layout(old)
    size, order = features(old) if callable(features) else features or size, axes or order
    if not size or not order:
        raise BadInput(
            f"what {type(old).__name__} takes cannot be read off it. Give features= and axes=, such as "
            f"axes='{LAST}' or axes='batch feature space space'."
        )
    node, given = find(norm)
    options = _of_replaced(old, node) | given | dict(options)
    name = norm if isinstance(norm, str) else norm["name"]
    if order == SECOND and not _by_rows(name, size, options):
        raise BadInput(
            f"{node['name']} takes the positions of an example together, and {type(old).__name__} takes x of several "
            "ranks. Say which one: axes='batch feature', 'batch feature space' or 'batch feature space space'."
        )
    at = {LAST: -1, SECOND: 1}.get(order)
    new = Swapped(create_norm(name, size, axes=order if at is None else "batch feature", **options), at)
    if copy:
        _copy(old, new.norm)
    tensors = chain(old.parameters(), old.buffers(), model.parameters())
    if (like := next((tensor for tensor in tensors if tensor.is_floating_point()), None)) is not None:
        new.to(like.device, like.dtype)
    return new.train(old.training)


def _layout(old: nn.Module) -> tuple[int, str]:
    """The number of features and the axes of a norm of torch; 0 and "" of another module.

    A subclass with a forward pass of its own is another: `torchvision.ops.misc.LayerNorm2d` has other axes.
    """
    kind = next((kind for kind in KINDS if isinstance(old, kind)), None)
    if kind is None or type(old).forward is not kind.forward:
        return 0, ""
    match old:
        case nn.BatchNorm2d():
            return old.num_features, "batch feature space space"
        case nn.BatchNorm1d():
            return old.num_features, SECOND
        case nn.GroupNorm():
            return old.num_channels, SECOND
        case nn.LayerNorm() | nn.RMSNorm() if len(old.normalized_shape) == 1:
            return old.normalized_shape[0], LAST
    return 0, ""


def _of_replaced(old: nn.Module, node: Mapping[str, Any]) -> dict[str, Any]:
    """The options that a normalizer takes from what it replaces, of those that it has."""
    taken: dict[str, Any] = {}
    if isinstance(eps := getattr(old, "eps", None), float):
        taken["eps"] = eps
    elif isinstance(old, nn.RMSNorm):  # None: that of x's type
        taken["eps"] = torch.finfo(torch.get_default_dtype() if old.weight is None else old.weight.dtype).eps
    if hasattr(old, "weight"):
        taken["affine"] = old.weight is not None
    if hasattr(old, "bias") and old.bias is None:
        taken["bias"] = False
    return {key: value for key, value in taken.items() if key in (node["declares"].get("options") or {})}


@torch.no_grad()
def _by_rows(norm: str, features: int, options: Mapping[str, Any]) -> bool:
    """Whether rows (positions, features) give what images give, so that the rank of x does not matter. It is tried."""
    x = torch.arange(3.0 * features * 4).sin().reshape(3, features, 2, 2)
    try:
        with torch.random.fork_rng(devices=[]):
            whole = create_norm(norm, features, axes="batch feature space space", **options)(x)
            rows = Swapped(create_norm(norm, features, axes="batch feature", **options), 1)(x)
    except BadInput:
        return False
    return torch.allclose(whole, rows, atol=1e-5)


@torch.no_grad()
def _copy(old: nn.Module, norm: nn.Module) -> None:
    """Gain and shift of a norm of torch; NormbenchError where the other has no such parameter to take them."""
    if not isinstance(old, KINDS):
        raise BadInput(f"copy=True knows the gain and shift of torch's norms, not those of {type(old).__name__}.")
    for theirs, ours in {"weight": "gain", "bias": "bias"}.items():
        tensor, target = getattr(old, theirs, None), getattr(norm, ours, None)
        if tensor is None:
            continue
        if not isinstance(target, Tensor) or target.shape != tensor.shape:
            raise BadInput(f"copy=True: {type(norm).__name__} has no {ours} of shape {tuple(tensor.shape)}.")
        target.copy_(tensor)
