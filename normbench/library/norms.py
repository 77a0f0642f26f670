"""Any normalizer as an `nn.Module`, by its name, and what a training loop of one's own tells it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakSet

from torch import Tensor, nn

from normbench.battery import adopt
from normbench.battery.cases import ACTIVATION_KINDS, FUNCTIONS, WEIGHT_KINDS
from normbench.config import compose
from normbench.errors import BadInput, positive, unknown
from normbench.norms.base import build
from normbench.norms.layers import NormedLinear
from normbench.norms.modes import gathering, normalizers
from normbench.norms.sites import AXES, Site, choose
from normbench.rnn.cells import filled


def create_norm(
    name: str | Mapping[str, Any],
    features: int,
    *,
    axes: str = "batch feature",
    space: Sequence[int] = (),
    inputs: int | None = None,
    activation: str = "none",
    **options: Any,
) -> nn.Module:
    """A normalizer as an `nn.Module`: `y = norm(x)`, y of x's shape. `batch_layer` also needs `normbench.epoch`.

    >>> import torch
    >>> from normbench import create_norm
    >>> norm = create_norm("batch_layer", 64)
    >>> norm(torch.randn(25, 64)).shape
    torch.Size([25, 64])
    >>> create_norm("layer", 8, axes="batch time feature", eps=1e-3)(torch.randn(2, 5, 8)).shape
    torch.Size([2, 5, 8])
    >>> create_norm("batch", 3, axes="batch feature space space", space=(4, 4))(torch.randn(2, 3, 4, 4)).shape
    torch.Size([2, 3, 4, 4])
    >>> create_norm("weight", 64, inputs=32, activation="relu")(torch.randn(25, 32)).shape
    torch.Size([25, 64])

    Args:
        name: one of `normbench list norms`; or the path of a file of one's own, Python or YAML; with options
            as `options` or as `{"name": "layer", "eps": 1e-3}`.
        features: the size of the feature axis.
        axes: the axes of x in order, of `batch`, `time`, `feature`, `space` (once for height and once for width).
        space: the sizes of the space axes, for those that keep something for each position.
        inputs: with it the module is a linear map with its normalizer, activation(norm(x W^T + b)), of x (*, inputs) to
            (*, features). Normalizers of weights (such as `weight`, `spectral`) need it: what they normalize
            is W. b is left out where the normalizer takes the mean away and brings its own shift.
        activation: of that map: `none`, `relu` or `tanh`; a normalizer that brings one of its own replaces it.
        options: those of `conf/norm/NAME.yaml`, with its defaults.

    `batch_layer` evaluates with the statistics of the last finished epoch: train inside `with normbench.epoch(model):`.
    Without it the first evaluation warns; its mean is 0 then and its standard deviation 1.
    y has x's type; it is computed in the type of the parameters, in float32 where that is bfloat16 or half.
    Tools of torch that go by the class `nn.modules.batchnorm._BatchNorm`, as those with statistics of batches have it:
    `torch.optim.swa_utils.update_bn` renews the averages, of `batch_layer` too; `convert_sync_batchnorm` is refused;
    a checkpointed pass (`torch.utils.checkpoint`) moves averages twice, as those of `nn.BatchNorm1d`: once more when it
    is computed again. An average with momentum=None is refused.
    A mask (batch, time), in the order of x's axes, true at valid positions, is the second argument; a normalizer that
    reads none ignores it.
    Errors: NormbenchError for a name, an option, an axis that does not exist, and where the normalizer cannot stand.
    """
    node, given = find(name)
    if options.get("momentum", given.get("momentum", 0)) is None:
        raise BadInput(
            f"{node['name']}: momentum=None, the plain average of all batches, is not served: give a number, and take "
            "plain averages by torch.optim.swa_utils.update_bn(batches, model) at the end."
        )
    site = _site(str(node["name"]), node["declares"], features, axes, space, inputs, activation)
    choice = choose(site, node, {**given, **options})
    of_weights = set(node["declares"]["kinds"]) <= set(WEIGHT_KINDS)
    if inputs is not None:
        module: nn.Module = NormedLinear(inputs, site, None if choice.name == "none" else choice, FUNCTIONS[activation])
        expected = _Expected(str(node["name"]), site.axes, -1, inputs, any_before=of_weights or choice.name == "none")
    else:
        module = build(site, choice)
        expected = _Expected(str(node["name"]), site.axes, site.feature_axis, features)
    module.register_forward_pre_hook(expected, with_kwargs=True)
    return module


_in_epoch: WeakSet[nn.Module] = WeakSet()  # normalizers whose epoch is open


@contextmanager
def epoch(model: nn.Module, *, frozen: bool = False) -> Iterator[None]:
    """An epoch of training: after it, `batch_layer` evaluates with the statistics of the batches inside the block.

    >>> import torch
    >>> from normbench import create_norm, epoch
    >>> model = torch.nn.Sequential(torch.nn.Linear(8, 4), create_norm("batch_layer", 4))
    >>> with epoch(model):
    ...     for batch in torch.randn(10, 25, 8):
    ...         loss = model(batch).square().mean()  # and an update
    >>> y = model.eval()(torch.randn(25, 8))

    Other normalizers take no notice of it. After an error inside the block the statistics of the epoch before stay.

    Args:
        frozen: a pass without updates over the training batches, in training mode. `batch_layer` with
            populations="recalibrated" and `batch` with eval_stats="per_step_pass" evaluate with the statistics of the
            last one; running averages do not move in it.
    """
    if frozen:
        with gathering(model):
            yield
        return
    norms = [*normalizers(model)]
    if any(norm in _in_epoch for norm in norms):
        raise BadInput(
            "normbench.epoch(model) is inside another epoch of this model, which would lose its batches. Leave one out."
        )
    _in_epoch.update(norms)
    try:
        for norm in norms:
            norm.begin_epoch()
        yield
        for norm in norms:
            norm.end_epoch()
    finally:
        _in_epoch.difference_update(norms)


@dataclass(frozen=True)
class _Expected:
    """Checks the shape of x: axis `at` has `size`; any_before: the others are free.

    With a mask, NaN at padding is replaced, so that it reaches no statistic.
    """

    name: str
    axes: tuple[str, ...]
    at: int
    size: int
    any_before: bool = False

    def __call__(
        self, module: nn.Module, given: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        x, mask = [*given, *(named[name] for name in ("x", "mask") if name in named), None, None][:2]
        shape = tuple(x.shape) if isinstance(x, Tensor) else ()
        if shape[self.at :][:1] == (self.size,) and (self.any_before or len(shape) == len(self.axes)):
            if mask is None or len(shape) != len(self.axes):
                return None
            places = [size if axis in ("batch", "time") else 1 for axis, size in zip(self.axes, shape, strict=True)]
            valid = [size for axis, size in zip(self.axes, shape, strict=True) if axis in ("batch", "time")]
            if not isinstance(mask, Tensor) or list(mask.shape) != valid:
                actual = tuple(mask.shape) if isinstance(mask, Tensor) else type(mask).__name__
                raise BadInput(f"{self.name}: the mask must be {tuple(valid)}, true at valid places, not {actual}.")
            return (filled(x, mask.bool().reshape(places)), mask), {}
        actual = shape if isinstance(x, Tensor) else type(x).__name__
        axes = ", ".join(str(self.size) if axis == "feature" else axis for axis in self.axes)
        example = "batch time feature"
        raise BadInput(f"{self.name}: x must be ({axes}), not {actual}. For other axes give axes='{example}'.")


def find(norm: str | Mapping[str, Any]) -> tuple[Mapping[str, Any], dict[str, Any]]:
    """The YAML of a normalizer, by its name or by the path of a file of one's own, and the options beside the name."""
    given = {"name": norm} if isinstance(norm, str) else dict(norm)
    if not isinstance(name := given.pop("name", None), str):
        raise BadInput(f'norm={norm!r} names no normalizer. Give a name, or {{"name": NAME, OPTION: VALUE}}.')
    return adopt.described(Path(name))[0] if adopt.is_file(name) else compose.choice("norm", name), given


def _site(
    name: str,
    declares: Mapping[str, Any],
    features: int,
    axes: str,
    space: Sequence[int],
    inputs: int | None,
    activation: str,
) -> Site:
    positive(name, features=features, **({} if inputs is None else {"inputs": inputs}))
    for size in space:
        positive(name, space=size)
    order = tuple(axes.split())
    for axis in order:
        if axis not in AXES:
            raise unknown(f"axes='{axes}': {axis} is not an axis.", axis, AXES)
    if order.count("feature") != 1 or len(set(order)) + max(order.count("space") - 1, 0) != len(order):
        raise BadInput(f"axes='{axes}' must have the feature axis once, and no other axis twice but space.")
    if space and len(space) != order.count("space"):
        raise BadInput(f"axes='{axes}' has {order.count('space')} space axes, space={tuple(space)} {len(space)}.")
    if activation not in FUNCTIONS:
        raise unknown(f"activation={activation} is not possible.", activation, FUNCTIONS)
    kinds: tuple[str, ...] = ACTIVATION_KINDS[:2]  # nothing here is inside a time loop
    if inputs is not None:
        if "space" in order or order[-1] != "feature":
            raise BadInput(f"inputs={inputs} asks for a linear map: its last axis is the feature, not '{axes}'.")
        kinds = ("pre_activation", *WEIGHT_KINDS)
    elif set(declares["kinds"]) <= set(WEIGHT_KINDS):
        raise BadInput(
            f"{name} normalizes the weights of a linear map. Make it with that map: "
            f"create_norm('{name}', {features}, inputs=N)."
        )
    elif activation != "none":
        raise BadInput(f"activation={activation} belongs to a linear map: give inputs=N.")
    return Site(name, kinds, order, features, tuple(space), activation=activation)
