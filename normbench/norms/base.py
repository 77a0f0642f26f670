"""What every normalizer is, the registry of their names, and what their classes share."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from normbench import user_code
from normbench.errors import NormbenchError
from normbench.eval_variants import DEFAULT, Variant, text
from normbench.norms.sites import Choice, Site

REGISTRY: dict[str, type[nn.Module]] = {}
Marked = TypeVar("Marked", bound=type[nn.Module])
Product = Callable[[Tensor, Tensor | None], Tensor]  # (weight, bias) -> summed inputs of a batch
HALF = (torch.bfloat16, torch.float16)


def _as_torchs(call: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A normalizer's method that takes x with empty batches and half precision kept away from it."""

    @functools.wraps(call)
    def called(self: Normalizer, x: Tensor, *further: Any, **named: Any) -> Tensor:
        if not x.numel():
            return x
        if x.dtype not in HALF:
            return call(self, x, *further, **named)
        own = (tensor.dtype for tensor in (*self.parameters(), *self.buffers()) if tensor.is_floating_point())
        return call(self, x.to(next(own, torch.float32)), *further, **named).to(x.dtype)

    return called


class Normalizer(nn.Module):
    """A normalizer at one site: `forward(x, mask=None)` returns a tensor of x's shape.

    Constructed as `Class(site, **options)` with the options declared in its YAML. A normalizer whose evaluation has
    variants names those of every evaluation in `variants` and says of any whether it `serves` it; it reads
    `self.variant`, the options that are set otherwise ({} is the default evaluation). One that keeps statistics has
    them in buffers, so that a resumed run has them: these, and what is drawn from torch's generators, are put back
    after every pass that is not training (`self.track` false), so that it may update them there or not. One that
    `stacks` evaluates several variants at once: with `stack` set it returns them one after another along the batch
    axis, and takes in an input of that form as well.

    As with torch's own, no values give no values and nothing is learned of them; bfloat16 and half are computed in the
    type of the parameters and buffers, float32 where there are none, and given back as they came.

    One whose evaluation needs statistics of a pass over the training batches with frozen weights sets `gathers`: there
    is such a pass before each evaluation, in training mode with `gathering` in the place of `track`.
    """

    variants: tuple[Variant, ...] = ()
    variant: Variant = DEFAULT
    track: bool = True
    gathers: bool = False
    gathering: bool = False
    stacks: bool = False
    stack: Stack | None = None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name in {"forward", "step"} & vars(cls).keys():
            setattr(cls, name, _as_torchs(vars(cls)[name]))

    def __init__(self, site: Site) -> None:
        super().__init__()
        self.site = site

    def begin_epoch(self) -> None:
        """Before the first batch of an epoch; not when a run is resumed in the middle of one."""

    def end_epoch(self) -> None:
        """After the last batch of an epoch, before it is evaluated."""

    def step(self, x: Tensor, t: int, mask: Tensor | None = None) -> Tensor:
        """Step t (from 0) of a site with time, inside a time loop: x and mask without their time axis.

        This serves whoever keeps nothing from step to step and looks at one step at a time; others define their own.
        """
        axis = self.site.axes.index("time")
        return self(x.unsqueeze(axis), None if mask is None else mask[:, None]).squeeze(axis)

    def serves(self, variant: Variant) -> bool:
        """Whether this evaluation is another one than the usual here."""
        return variant in self.variants

    def computes(self, variant: Variant) -> Hashable:
        """Equal for variants that compute the same."""
        return text(variant) if self.serves(variant) else ""

    def by_pass(self, variant: Variant) -> bool:
        """Whether this variant needs the pass over the training batches."""
        return self.gathers

    def by_batch(self, variant: Variant) -> bool:
        """Whether this variant takes whatever comes at once for one batch and normalizes with its statistics."""
        return False

    def begin_pass(self) -> None:
        """Before the first batch of a pass, for those that gather."""

    def end_pass(self) -> None:
        """After the last batch of a pass, for those that gather."""

    def extra_repr(self) -> str:
        return f"{self.site.path}, {self.site.features}"


@dataclass
class Stack:
    """Several variants in one pass: sample i of variant k is row k * examples + i."""

    variants: tuple[Variant, ...]
    examples: int = 0  # of the batch at hand


class WeightNormalizer(Normalizer):
    """A normalizer of kind `weight` or `block`: `forward(weight)` returns the weight that the linear map is to use.

    The weight stays the map's own parameter, so arms share its initial draws, and the bias stays the map's too; the
    normalizer brings what it needs beside them. One with `pending` true waits for the first minibatch; it takes its
    initial values from it in the first training pass, or earlier, in a pass under `starting`.

    Shapes: weight (features, ...): (out, in) of a linear map, (out, in, height, width) of a convolution.
    """

    starting: bool = False

    @property
    def pending(self) -> bool:
        """Whether initial values are still to be taken from the first minibatch."""
        return False

    def start(self, weight: Tensor) -> None:
        """Take initial values from the weight's: called when the weight is made, and again once it is drawn."""

    def summed(self, product: Product, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Summed inputs W x + b of a batch; `product` is the map of that batch, e.g. `partial(F.linear, x)`."""
        return product(self(weight), bias)

    def finish(self, activations: Tensor) -> Tensor:
        """What a block makes of the activations."""
        return activations

    def norms(self, weight: Tensor) -> Tensor:
        """||w_i||_2 of each output unit i, in a shape that divides the weight."""
        norms = torch.linalg.vector_norm(weight.flatten(1), dim=1)
        return norms.view(-1, *[1] * (weight.dim() - 1))

    def refuse_zero_units(self, weight: Tensor) -> None:
        """A unit without incoming weights has no direction; dividing by its norm would only give NaN later."""
        zero = (self.norms(weight.detach()).flatten() == 0).nonzero().flatten().tolist()
        if zero:
            raise NormbenchError(
                f"site '{self.site.path}': the incoming weights of unit {zero[0]} are all zero ({len(zero)} of "
                f"{len(weight)} units), so their norm cannot be divided out. Give them another initial value."
            )


class Plain(Normalizer):
    """Anybody's module as a normalizer: x is (N, C, H, W) at sites with space, (positions, features) at all others.

    One that does not take the first has (positions, features) everywhere. The constructor's parameter without a default
    is the number of features; `forward` is given the mask (positions,), or None, if it names one.
    """

    def __init__(self, cls: type[nn.Module], site: Site, **options: Any) -> None:
        super().__init__(site)
        needed = [
            one.name
            for one in inspect.signature(cls).parameters.values()
            if one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
        ]
        needed = [name for name in needed if name not in options]
        if len(needed) > 1:
            rest = " and ".join(needed[1:])
            raise NormbenchError(f"{cls.__name__}: {needed[0]} is the number of features, {rest} must have a default.")
        made = functools.partial(cls, **options, **dict.fromkeys(needed, site.features))
        self.module = made()
        self.reads_mask = "mask" in inspect.signature(self.module.forward).parameters
        self.channels_first = "space" in site.axes and self._takes_channels_first(made)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        if self.channels_first:
            return from_channels(self._of(self.module, to_channels(x, self.site), mask), self.site, x)
        rows = x.movedim(self.site.feature_axis, -1)
        y = self._of(self.module, rows.flatten(0, -2), mask)
        return y.reshape(rows.shape).movedim(-1, self.site.feature_axis)

    def _of(self, module: nn.Module, x: Tensor, mask: Tensor | None) -> Tensor:
        y: Tensor = module(x, mask=mask if mask is None else mask.flatten()) if self.reads_mask else module(x)
        if not isinstance(y, Tensor) or y.shape != x.shape:
            found = tuple(y.shape) if isinstance(y, Tensor) else type(y).__name__
            raise NormbenchError(f"{type(module).__name__}: x of {tuple(x.shape)} gives {found}, not a tensor like x.")
        return y

    @torch.no_grad()
    def _takes_channels_first(self, made: Callable[[], nn.Module]) -> bool:
        """By trying another one, at heights and widths that are not the number of features."""
        height, width = [size for size in (5, 7, 9) if size != self.site.features][:2]
        try:
            with torch.random.fork_rng(devices=[]):
                self._of(made().eval(), torch.zeros(2, self.site.features, height, width), None)
        except Exception:  # whatever a user's module raises at an image: it takes rows
            return False
        return True


def normalizer(name: str) -> Callable[[Marked], Marked]:
    """Class decorator: `@normalizer("layer")` registers the class that `conf/norm/layer.yaml` declares."""

    def register(cls: Marked) -> Marked:
        if not (isinstance(cls, type) and issubclass(cls, nn.Module)):
            raise NormbenchError(f"what @normalizer('{name}') marks must be a class of modules.")
        cls.registered_as = name  # type: ignore[attr-defined]  # a mark, by which `import_file` finds users' classes
        if cls.__module__.startswith("normbench.norms."):
            REGISTRY[name] = cls
        return cls

    return register


def build(site: Site, choice: Choice) -> Normalizer:
    """The chosen normalizer for a site, from this package or from the user's own file, any module class there."""
    if choice.file:
        known = import_file(choice.file)
    else:
        known = REGISTRY
        if choice.name not in REGISTRY:
            importlib.import_module(f"normbench.norms.{choice.name}")
    if choice.name not in known:
        raise NormbenchError(f"{choice.file or choice.name}: no class is registered with @normalizer('{choice.name}').")
    cls = known[choice.name]
    if (choice.kind in ("weight", "block")) != issubclass(cls, WeightNormalizer):
        needed = "WeightNormalizer" if choice.kind in ("weight", "block") else "Normalizer, not of WeightNormalizer"
        raise NormbenchError(f"{choice.name} serves {choice.kind}: {cls.__name__} must be a subclass of {needed}.")
    built = cls(site, **choice.options) if issubclass(cls, Normalizer) else Plain(cls, site, **choice.options)
    if any(map(is_lazy, [*built.parameters(), *built.buffers()])):  # else it would have no parameters to begin with
        places = iter(site.space or (2, 2))
        sizes = (site.features if axis == "feature" else next(places) if axis == "space" else 2 for axis in site.axes)
        with torch.no_grad():
            built.eval()(torch.zeros(*sizes))
        built.train()
    return built


def import_file(path: str) -> dict[str, type[nn.Module]]:
    """The classes that a user's file registers, by name, or by the file's own name the one that it has.

    It is carried out once as long as it stays as it is. A name that this package has as well is not replaced.
    NormbenchError for whatever is wrong in it, and for several classes of which none is registered.
    """
    return _registered(Path(path), user_code.digest(Path(path)))


@functools.cache
def _registered(path: Path, sha256: str) -> dict[str, type[nn.Module]]:
    own = vars(user_code.carried_out(path, sha256))
    modules = [*dict.fromkeys(one for one in own.values() if isinstance(one, type) and issubclass(one, nn.Module))]
    marked = (one for one in modules if "registered_as" in vars(one) and one not in REGISTRY.values())
    if found := {vars(one)["registered_as"]: one for one in marked}:
        return found
    modules = [one for one in modules if one.__module__ == own["__name__"]]
    if len(modules) > 1:
        names = ", ".join(one.__name__ for one in modules)
        raise NormbenchError(
            f"{path} has several classes, {names}. Mark one: @normalizer('NAME') from normbench.norms.base."
        )
    return dict(zip([path.stem], modules, strict=False))  # of none, none


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
