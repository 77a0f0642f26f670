"""The base classes of normalizers, the registry of their names, and functions that their classes share."""

from __future__ import annotations

import functools
import importlib
import inspect
import warnings
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from normbench.core import user_code
from normbench.core.eval_variants import Variant, text
from normbench.errors import BadInput, kind
from normbench.norms.context import ForwardContext
from normbench.norms.fused import ELEMENT, FusedSpec, elementwise
from normbench.norms.scalars import Scalars
from normbench.norms.sites import Choice, Site

REGISTRY: dict[str, type[nn.Module]] = {}
Marked = TypeVar("Marked", bound=type[nn.Module])
Product = Callable[[Tensor, Tensor | None], Tensor]  # (weight, bias) -> summed inputs of a batch
HALF = (torch.bfloat16, torch.float16)
NO_PASS = (  # for `warn_of_evaluation`
    "there was no pass over the training batches with frozen weights",
    "Pass them through the model inside `with normbench.epoch(model, frozen=True):`, before each evaluation.",
)


def wide(x: Tensor) -> Tensor:
    """x, in float32 where it is bfloat16 or half."""
    return x.float() if x.dtype in HALF else x


def _types(module: nn.Module, kind: str) -> set[torch.dtype]:
    """The types of a module's `_parameters` or `_buffers`, its children's too: 4 times as fast as `parameters()`."""
    # not vars(module)[kind]: torch.compile would stop there
    tensors = module._parameters if kind == "_parameters" else module._buffers
    types = {tensor.dtype for tensor in tensors.values() if tensor is not None}
    for child in module._modules.values():
        if child is not None:
            types |= _types(child, kind)
    return types


@contextmanager
def _widened(module: nn.Module) -> Iterator[None]:
    """Parameters of half precision in float32; gradients reach the parameters themselves."""
    narrow = [
        (owner, name, parameter)
        for owner in module.modules()
        for name, parameter in owner._parameters.items()
        if parameter is not None and parameter.dtype in HALF
    ]
    try:
        for owner, name, parameter in narrow:
            owner._parameters[name] = parameter.float()  # type: ignore[assignment]  # as `functional_call` does it
        yield
    finally:
        for owner, name, parameter in narrow:
            owner._parameters[name] = parameter


def _any_batch(call: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Wraps a method that takes x: an empty x comes back as it is, one of another type is computed in the module's."""

    @functools.wraps(call)
    def wrapper(self: Normalizer, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if not x.numel():
            return x
        types = _types(self, "_parameters") or _types(self, "_buffers")
        if not x.is_floating_point() or (types <= {x.dtype} and x.dtype not in HALF):
            return call(self, x, *args, **kwargs)
        dtype = torch.float64 if torch.float64 in types else torch.float32
        with _widened(self):
            return call(self, x.to(dtype), *args, **kwargs).to(x.dtype)

    return wrapper


def in_float32(moved: Tensor, statistic: Tensor) -> Tensor:
    """A statistic after `module.to`: half precision has too few digits for the mean of thousands of batches."""
    return statistic.to(moved.device, torch.float32) if moved.dtype in HALF else moved


class Normalizer(Scalars, nn.Module):
    """A normalizer at one site: `forward(x, mask=None)` returns a tensor of x's shape.

    The constructor is called as `Class(site, **options)` with the options that its YAML declares.

    `self.forward_context` says what the current pass is for; `track`, `variant`, `gathering` and `stack` are read from
    it.

    Variants: `variants` lists those of every evaluation; `serves` tells whether the normalizer has a variant at all.
    `self.variant` holds the options of the current evaluation; {} is the default evaluation.

    Statistics belong in buffers, so that a resumed run has them. After every pass that is not training (`self.track` is
    false) the buffers and torch's generators are restored, whether the normalizer changed them or not.

    Statistics from a pass over the training batches with frozen weights: a class that needs them for its evaluation
    sets `gathers`. Such a pass precedes each evaluation, in training mode, with `gathering` true and `track` false.

    Several variants at once: a class with `stacks` reads `stack`. It returns the variants one after another along the
    batch axis, and accepts an input of that form.

    An empty batch gives an empty result and changes no statistics. The result has x's type; it is computed in the type
    of the parameters (of the buffers where there are none), in float32 where that or x is bfloat16 or half. `half()`
    and the like leave the buffers in float32.
    """

    variants: tuple[Variant, ...] = ()
    gathers: bool = False
    stacks: bool = False
    forward_context: ForwardContext = ForwardContext()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if {"forward", "step"} & vars(cls).keys() and "fused" not in vars(cls):  # that of its base is another function
            cls.fused = Normalizer.fused  # type: ignore[method-assign]
        for name in {"forward", "step", "finish"} & vars(cls).keys():
            setattr(cls, name, _any_batch(vars(cls)[name]))

    def __init__(self, site: Site) -> None:
        super().__init__()
        self.site = site
        self._elementwise: dict[bool, bool] = {}
        self._warned = False

    @property
    def track(self) -> bool:
        """Whether running statistics move in a pass in training mode."""
        return self.forward_context.update_running_stats

    @property
    def variant(self) -> Variant:
        return self.forward_context.variants[0]

    @property
    def gathering(self) -> bool:
        return self.forward_context.gathering

    @property
    def stack(self) -> ForwardContext | None:
        """The context, where the batch at hand has several variants."""
        return self.forward_context if self.forward_context.examples else None

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        buffers = [
            (owner, name, buffer)
            for owner in self.modules()
            for name, buffer in owner._buffers.items()
            if buffer is not None and buffer.is_floating_point() and not is_lazy(buffer)
        ]
        super()._apply(fn, recurse)
        for owner, name, buffer in buffers:
            moved = owner._buffers[name]
            assert moved is not None
            owner._buffers[name] = in_float32(moved, buffer)
        return self

    def __getstate__(self) -> dict[str, Any]:
        """A copy stands in no pass."""
        return {name: value for name, value in vars(self).items() if name != "forward_context"}

    def begin_epoch(self) -> None:
        """Before the first batch of an epoch; not when a run is resumed in the middle of one."""

    def end_epoch(self) -> None:
        """After the last batch of an epoch, before it is evaluated."""

    def warn_of_evaluation(self, missing: str, remedy: str) -> None:
        """Warn once of an evaluation without statistics in a loop of one's own (this package's is meant so)."""
        if self.track and not self._warned:
            self._warned = True
            warnings.warn(
                f"{self.site.path}: {missing}. This evaluation takes mean 0 and standard deviation 1. {remedy}",
                stacklevel=2,
            )

    def step(self, x: Tensor, t: int, mask: Tensor | None = None) -> Tensor:
        """Step t (from 0) of a site with time, inside a time loop: x and mask without their time axis.

        The default serves classes that treat every step by itself. A class with statistics per step overrides it.
        """
        axis = self.site.axes.index("time")
        return self(x.unsqueeze(axis), None if mask is None else mask[:, None]).squeeze(axis)

    def fused(self) -> FusedSpec | None:
        """The same function as `forward` at a site with time, for recurrent layers; without it they are slower.

        Here that of a normalizer which takes each number by itself, as `elementwise` measures once for each mode.
        """
        known = self._elementwise
        if self.training not in known:
            alike = type(self).step is Normalizer.step
            known[self.training] = alike and elementwise(self, type(self).of_rows, self.site.features)
        return FusedSpec(ELEMENT, apply=self.of_rows) if known[self.training] else None

    def of_rows(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Of rows (n, features), for one that takes each by itself, at a site with time."""
        return self.step(x, 0, mask)

    def observe(self, x: Tensor) -> dict[str, Tensor]:
        """Numbers that say how it treats x, for a model that logs them at its sites: here none."""
        return {}

    def serves(self, variant: Variant) -> bool:
        """Whether this normalizer evaluates differently in this variant."""
        return variant in self.variants

    def computes(self, variant: Variant) -> Hashable:
        """Equal for variants that compute the same."""
        return text(variant) if self.serves(variant) else ""

    def by_pass(self, variant: Variant) -> bool:
        """Whether this variant needs the pass over the training batches."""
        return self.gathers

    def by_batch(self, variant: Variant) -> bool:
        """Whether this variant normalizes with the statistics of all examples that are passed together."""
        return False

    def begin_pass(self) -> None:
        """Before the first batch of a pass, for those that gather."""

    def end_pass(self) -> None:
        """After the last batch of a pass, for those that gather."""

    def extra_repr(self) -> str:
        return f"{self.site.path}, {self.site.features}"


class WeightNormalizer(Normalizer):
    """A normalizer of kind `weight` or `block`: `forward(weight)` returns the weight that the linear map is to use.

    Weight and bias remain parameters of the map, so that all arms have the same initial draws; the normalizer adds its
    own. While `pending` is true the normalizer waits for the first minibatch, from which it takes its initial values:
    in the first training pass, or before it in a pass with `starting` true.

    Shapes: weight (features, ...): (out, in) of a linear map, (out, in, height, width) of a convolution.
    """

    @property
    def starting(self) -> bool:
        return self.forward_context.starting

    @property
    def pending(self) -> bool:
        """Whether initial values are still to be taken from the first minibatch."""
        return False

    def start(self, weight: Tensor) -> None:
        """Take initial values from the weight: called when the weight is created, and after it has been initialized."""

    def summed(self, product: Product, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Summed inputs W x + b of a batch; `product` is the map of that batch, e.g. `partial(F.linear, x)`."""
        return product(self(weight), bias)

    def finish(self, activations: Tensor) -> Tensor:
        """The output of a block, from the activations."""
        return activations

    def norms(self, weight: Tensor) -> Tensor:
        """||w_i||_2 of each output unit i, in a shape that divides the weight."""
        norms = torch.linalg.vector_norm(wide(weight).flatten(1), dim=1)
        return norms.view(-1, *[1] * (weight.dim() - 1))

    def refuse_zero_units(self, weight: Tensor) -> None:
        """A unit without incoming weights has no direction; dividing by its norm would only give NaN later."""
        zero = (self.norms(weight.detach()).flatten() == 0).nonzero().flatten().tolist()
        if zero:
            raise BadInput(
                f"site '{self.site.path}': the incoming weights of unit {zero[0]} are all zero ({len(zero)} of "
                f"{len(weight)} units), so their norm cannot be divided out. Give them another initial value."
            )


class WrappedModule(Normalizer):
    """A user's `nn.Module` as a normalizer: x is (N, C, H, W) at sites with space, (positions, features) elsewhere.

    A module that does not accept (N, C, H, W) gets (positions, features) everywhere. The constructor's one parameter
    without a default is the number of features. `forward` gets the mask (positions,), or None, if it has a `mask`.
    """

    def __init__(self, cls: type[nn.Module], site: Site, **options: Any) -> None:
        super().__init__(site)
        required = [
            parameter.name
            for parameter in inspect.signature(cls).parameters.values()
            if parameter.default is parameter.empty
            and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        ]
        required = [name for name in required if name not in options]
        if len(required) > 1:
            others = " and ".join(required[1:])
            raise BadInput(f"{cls.__name__}: {required[0]} is the number of features, {others} must have a default.")
        create = functools.partial(cls, **options, **dict.fromkeys(required, site.features))
        self.module = create()
        self.reads_mask = "mask" in inspect.signature(self.module.forward).parameters
        self.channels_first = "space" in site.axes and self._takes_channels_first(create)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        if self.channels_first:
            return from_channels(self._call(self.module, to_channels(x, self.site), mask), self.site, x)
        rows = x.movedim(self.site.feature_axis, -1)
        y = self._call(self.module, rows.flatten(0, -2), mask)
        return y.reshape(rows.shape).movedim(-1, self.site.feature_axis)

    def of_rows(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return self._call(self.module, x, mask)

    def _call(self, module: nn.Module, x: Tensor, mask: Tensor | None) -> Tensor:
        y: Tensor = module(x, mask=mask if mask is None else mask.flatten()) if self.reads_mask else module(x)
        demand_alike(module, x, y)
        return y

    @torch.no_grad()
    def _takes_channels_first(self, create: Callable[[], nn.Module]) -> bool:
        """Tried on a second instance, with height and width that differ from the number of features."""
        height, width = [size for size in (5, 7, 9) if size != self.site.features][:2]
        try:
            with torch.random.fork_rng(devices=[]):
                self._call(create().eval(), torch.zeros(2, self.site.features, height, width), None)
        except Exception:  # a user's module may raise anything: it takes rows
            return False
        return True


def normalizer(name: str) -> Callable[[Marked], Marked]:
    """Class decorator: `@normalizer("layer")` registers the class that `conf/norm/layer.yaml` declares."""

    def register(cls: Marked) -> Marked:
        cls.registered_as = name  # type: ignore[attr-defined]  # a mark, by which `import_file` finds users' classes
        if cls.__module__.startswith("normbench.norms."):
            REGISTRY[name] = cls
        return cls

    return register


def build(site: Site, choice: Choice) -> Normalizer:
    """The chosen normalizer for a site: a class of this package, or any module class of a user's file."""
    cls = class_of(choice.name, choice.file)
    if (choice.kind in ("weight", "block")) != issubclass(cls, WeightNormalizer):
        needed = "WeightNormalizer" if choice.kind in ("weight", "block") else "Normalizer, not of WeightNormalizer"
        raise BadInput(f"{choice.name} serves {choice.kind}: {cls.__name__} must be a subclass of {needed}.")
    built = cls(site, **choice.options) if issubclass(cls, Normalizer) else WrappedModule(cls, site, **choice.options)
    if torch.get_default_dtype() in HALF:
        built._apply(lambda tensor: tensor)  # buffers in float32
    if choice.file and issubclass(cls, Normalizer) and not issubclass(cls, WeightNormalizer):
        try:
            inspect.signature(built.forward).bind(None, None)
        except TypeError:
            name = f"{Path(choice.file).name}: {cls.__name__}.forward"
            raise BadInput(f"{name} takes no mask. Write forward(self, x, mask=None).") from None
        built.register_forward_hook(_check_output)
    if any(map(is_lazy, [*built.parameters(), *built.buffers()])):  # parameters get their shapes in a first pass
        places = iter(site.space or (2, 2))
        sizes = (site.features if axis == "feature" else next(places) if axis == "space" else 2 for axis in site.axes)
        with torch.no_grad():
            built.eval()(torch.zeros(*sizes))
        built.train()
    return built


def class_of(name: str, file: str) -> type[nn.Module]:
    """The class of this name in a user's file, or without one in this package. NormbenchError where there is none."""
    if file:
        classes = import_file(file)
    else:
        importlib.import_module(f"normbench.norms.{name}")
        classes = REGISTRY
    if name not in classes:
        raise BadInput(f"{file or name}: no class is registered with @normalizer('{name}').")
    return classes[name]


def demand_alike(module: nn.Module, x: Tensor, y: Any) -> None:
    """NormbenchError unless a user's module gives a tensor like x."""
    if not isinstance(y, Tensor) or y.shape != x.shape:
        raise BadInput(f"{type(module).__name__}: x of {tuple(x.shape)} gives {kind(y)}, not a tensor like x.")


def _check_output(norm: Normalizer, given: tuple[Any, ...], y: Any) -> None:
    """Forward hook of a user's normalizer; of several variants at once y has more rows."""
    if norm.stack is None:
        demand_alike(norm, given[0], y)


def import_file(path: str) -> dict[str, type[nn.Module]]:
    """The classes that a user's file registers, by name; without `@normalizer` its one class, by the file's name.

    The file is executed once, and again after a change. Names of this package are not replaced.
    Errors: NormbenchError for a file that cannot be executed, and for several classes of which none is registered.
    """
    return _registered(Path(path), user_code.digest(Path(path)))


@functools.cache
def _registered(path: Path, sha256: str) -> dict[str, type[nn.Module]]:
    namespace = vars(user_code.load_module(path, sha256))
    values = dict.fromkeys(value for value in namespace.values() if isinstance(value, type))
    classes = [cls for cls in values if issubclass(cls, nn.Module)]
    marked = (cls for cls in classes if "registered_as" in vars(cls) and cls not in REGISTRY.values())
    if by_name := {vars(cls)["registered_as"]: cls for cls in marked}:
        return by_name
    classes = [cls for cls in classes if cls.__module__ == namespace["__name__"]]  # of the file itself
    if len(classes) > 1:
        names = ", ".join(cls.__name__ for cls in classes)
        raise BadInput(f"{path} has several classes, {names}. Mark one: @normalizer('NAME') from normbench.extend.")
    return dict(zip([path.stem], classes, strict=False))  # empty if the file has no class


def gain_and_bias(
    shape: Sequence[int], affine: bool, bias: bool, gain_init: float
) -> tuple[nn.Parameter | None, nn.Parameter | None]:
    """A gain of `shape` (filled with `gain_init`) and a shift (zeros), or None where switched off."""
    gain = nn.Parameter(torch.full(tuple(shape), float(gain_init))) if affine else None
    return gain, nn.Parameter(torch.zeros(tuple(shape))) if affine and bias else None


def fixed_factor(scale: str, site: Site) -> float:
    """The factor before gain and shift: 1, or 1/sqrt(d) for `inverse_root_d` (BLN 2022, eq. 16)."""
    return {"one": 1.0, "inverse_root_d": site.features**-0.5}[scale]


def affine(y: Tensor, gain: Tensor | None, bias: Tensor | None, axis: int) -> Tensor:
    """gain * y + bias with one of each per index of `axis`; either may be None."""
    shape = [-1 if i == axis % y.dim() else 1 for i in range(y.dim())]
    y = y if gain is None else y * gain.view(shape)
    return y if bias is None else y + bias.view(shape)


def root(variance: Tensor, eps: float, mode: str = "in") -> Tensor:
    """`in`: sqrt(variance + eps); `out`: sqrt(variance) + eps, with a finite gradient at zero."""
    if mode == "in":
        return (variance + eps).sqrt()
    # the clamp changes no value; without it the root's gradient at zero variance is infinite
    return variance.clamp(min=torch.finfo(variance.dtype).tiny).sqrt() + eps


def to_channels(x: Tensor, site: Site) -> Tensor:
    """x as (sample or sample and time, feature, *space), the layout of torch's functionals."""
    order, lead = _channel_order(site)
    return x.permute(order).flatten(0, lead - 1)


def from_channels(y: Tensor, site: Site, like: Tensor) -> Tensor:
    """The inverse of `to_channels`, for a tensor of the shape of `like`."""
    order, _ = _channel_order(site)
    return y.reshape([like.shape[i] for i in order]).permute([order.index(i) for i in range(len(order))])


def _channel_order(site: Site) -> tuple[list[int], int]:
    lead = [i for i, axis in enumerate(site.axes) if axis in ("batch", "time")]
    return [*lead, site.feature_axis, *(i for i, axis in enumerate(site.axes) if axis == "space")], len(lead)


def own_parameters(model: nn.Module) -> set[str]:
    """Names of the parameters that belong to normalizers; these take no part in the paired initial draws."""
    prefixes = [name for name, module in model.named_modules() if isinstance(module, Normalizer)]
    return {name for name, _ in model.named_parameters() if any(name.startswith(f"{p}.") for p in prefixes)}
