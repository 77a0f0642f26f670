"""What every normalizer is, the registry of their names, and how a layer takes one in."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from normbench.errors import NormbenchError
from normbench.norms.sites import Choice, Site

REGISTRY: dict[str, type[Normalizer]] = {}


class Normalizer(nn.Module):
    """A normalizer at one site: `forward(x, mask=None)` returns a tensor of x's shape.

    Constructed as `Class(site, **options)` with the options declared in its YAML. A normalizer that evaluates in
    more than one way names the further ways in `variants` and reads `self.variant` ("" is the usual one); one that
    keeps statistics updates them in training only while `self.track`.
    """

    variants: tuple[str, ...] = ()
    variant: str = ""
    track: bool = True

    def __init__(self, site: Site) -> None:
        super().__init__()
        self.site = site

    def extra_repr(self) -> str:
        return f"{self.site.path}, {self.site.features}"


def normalizer(name: str) -> Callable[[type[Normalizer]], type[Normalizer]]:
    """Class decorator: `@normalizer("layer")` registers the class that `conf/norm/layer.yaml` declares."""

    def register(cls: type[Normalizer]) -> type[Normalizer]:
        REGISTRY[name] = cls
        return cls

    return register


def build(site: Site, choice: Choice) -> Normalizer:
    """The chosen normalizer for a site, from this package or from the user's own file."""
    if choice.file:
        _import_file(choice.file)
    elif choice.name not in REGISTRY:
        importlib.import_module(f"normbench.norms.{choice.name}")
    if choice.name not in REGISTRY:
        raise NormbenchError(f"{choice.file or choice.name}: no class is registered with @normalizer('{choice.name}').")
    return REGISTRY[choice.name](site, **choice.options)


def _import_file(path: str) -> None:
    name = f"normbench_user_{hashlib.sha256(Path(path).read_bytes()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # anything may be wrong in a user's file; it is their line that they need
        raise NormbenchError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error


class NormedLinear(nn.Module):
    """act(norm(x W^T + b)): a linear map, what the site asks for around it, and the non-linearity.

    `pre_activation` normalizes the summed inputs (LN 2016, eq. 3), `post_activation` the activations. Without a
    normalizer: act(x W^T + b). Shapes: (*, in_features) -> (*, out_features).
    """

    def __init__(self, inputs: int, site: Site, choice: Choice | None, activation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, site.features, bias=choice is None or choice.keep_bias)
        self.norm = build(site, choice) if choice else None
        self.after = choice is not None and choice.kind == "post_activation"
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        z = self.linear(x)
        if self.norm is None:
            return self.activation(z)
        return self.norm(self.activation(z)) if self.after else self.activation(self.norm(z))


def normalizers(model: nn.Module) -> Iterator[Normalizer]:
    return (module for module in model.modules() if isinstance(module, Normalizer))


def variants(model: nn.Module) -> list[str]:
    """The further ways in which this model can be evaluated, e.g. `["momentum=0.01"]`."""
    return list(dict.fromkeys(variant for norm in normalizers(model) for variant in norm.variants))


@contextmanager
def inference(model: nn.Module, variant: str = "") -> Iterator[None]:
    """Evaluation mode, with the named variant in every normalizer that has it."""
    was_training = model.training
    model.eval()
    for norm in normalizers(model):
        norm.variant = variant if variant in norm.variants else ""
    try:
        yield
    finally:
        model.train(was_training)
        for norm in normalizers(model):
            norm.variant = ""


@contextmanager
def training_without_tracking(model: nn.Module) -> Iterator[None]:
    """Training mode that leaves running statistics as they are: the training-mode pass of an evaluation."""
    was_training = model.training
    model.train()
    for norm in normalizers(model):
        norm.track = False
    try:
        yield
    finally:
        model.train(was_training)
        for norm in normalizers(model):
            norm.track = True


def gain_and_bias(
    shape: Sequence[int], affine: bool, bias: bool, gain_init: float
) -> tuple[nn.Parameter | None, nn.Parameter | None]:
    """A gain of `shape` (filled with `gain_init`) and a shift (zeros), or None where switched off."""
    gain = nn.Parameter(torch.full(tuple(shape), float(gain_init))) if affine else None
    return gain, nn.Parameter(torch.zeros(tuple(shape))) if affine and bias else None


def own_parameters(model: nn.Module) -> set[str]:
    """Names of the parameters that belong to normalizers; these take no part in the paired initial draws."""
    prefixes = [name for name, module in model.named_modules() if isinstance(module, Normalizer)]
    return {name for name, _ in model.named_parameters() if any(name.startswith(f"{p}.") for p in prefixes)}
