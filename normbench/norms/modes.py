"""What a pass asks of all normalizers of a model: evaluation in a variant, statistics at rest, gathering, starting."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from normbench.eval_variants import DEFAULT, Variant, text
from normbench.norms.base import Normalizer, Stack, WeightNormalizer
from normbench.norms.layers import Weighted


def normalizers(model: nn.Module) -> Iterator[Normalizer]:
    return (module for module in model.modules() if isinstance(module, Normalizer))


def variants(model: nn.Module) -> list[Variant]:
    """The variants that every evaluation of this model has beside the default one, e.g. `[{"momentum": 0.01}]`."""
    return list({text(variant): variant for norm in normalizers(model) for variant in norm.variants}.values())


def generators(device: torch.device) -> dict[str, torch.Generator]:
    """Torch's own generators that a pass on this device may draw from, by type of device."""
    found = {"cpu": torch.default_generator}
    if device.type == "cuda":
        torch.cuda.init()
        found["cuda"] = torch.cuda.default_generators[device.index or 0]
    return found


def seed_torch(seed: int, device: torch.device) -> None:
    """What `torch.manual_seed` does, which would load torch's compiler."""
    for generator in generators(device).values():
        generator.manual_seed(seed)


@contextmanager
def without_trace(model: nn.Module, learning: Collection[Normalizer] = ()) -> Iterator[None]:
    """A pass that is not training: normalizers and torch's generators end as they began, but for those `learning`.

    What is put back are buffers, and parameters without a gradient, which some classes change in place as well.
    """
    resting = (norm for norm in normalizers(model) if norm not in learning)
    modules = [module for norm in resting for module in norm.modules()]
    buffers = [(module, name, tensor) for module in modules for name, tensor in module._buffers.items()]
    frozen = (parameter for module in modules for parameter in module.parameters(False) if not parameter.requires_grad)
    tensors = [t for t in (*(tensor for *_, tensor in buffers), *frozen) if t is not None and not is_lazy(t)]
    copies = [tensor.clone() for tensor in tensors]
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    states = [(generator, generator.get_state()) for generator in generators(device).values()]
    try:
        yield
    finally:
        with torch.no_grad():
            for tensor, copy in zip(tensors, copies, strict=True):
                tensor.copy_(copy)
        for module, name, buffer in buffers:  # a class may give the name to another tensor
            setattr(module, name, buffer)
        for generator, state in states:
            generator.set_state(state)


@contextmanager
def inference(model: nn.Module, variant: Variant = DEFAULT) -> Iterator[None]:
    """Evaluation mode, without a trace, with this variant in every normalizer that serves it."""
    was_training = model.training
    model.eval()
    for norm in normalizers(model):
        norm.variant = variant if norm.serves(variant) else DEFAULT
    try:
        with without_trace(model):
            yield
    finally:
        model.train(was_training)
        for norm in normalizers(model):
            vars(norm).pop("variant", None)  # the class has the default one


@contextmanager
def stacked(model: nn.Module, variants: Sequence[Variant]) -> Iterator[Stack]:
    """Evaluation mode with all of these variants at once, for models whose normalizers all have `stacks`.

    Whoever passes a batch through says first how many `examples` it has; there are len(variants) times as many rows.
    """
    stack = Stack(tuple(variants))
    with inference(model):
        for norm in normalizers(model):
            norm.stack = stack
        try:
            yield stack
        finally:
            for norm in normalizers(model):
                norm.stack = None


@contextmanager
def training_without_tracking(model: nn.Module, learning: Collection[Normalizer] = ()) -> Iterator[None]:
    """Training mode without a trace, but for those `learning`: the training-mode pass of an evaluation."""
    was_training = model.training
    model.train()
    for norm in normalizers(model):
        norm.track = False
    try:
        with without_trace(model, learning):
            yield
    finally:
        model.train(was_training)
        for norm in normalizers(model):
            norm.track = True


@contextmanager
def gathering(model: nn.Module, variants: Sequence[Variant] = (DEFAULT,)) -> Iterator[None]:
    """Training mode for a pass over the training batches: those that ask for it keep its statistics, running ones rest.

    They ask for it for an evaluation in these variants. After an error inside, what they gathered is no population.
    """
    asking = [norm for norm in normalizers(model) if any(map(norm.by_pass, variants))]
    with training_without_tracking(model, asking):
        for norm in asking:
            norm.gathering = True
            norm.begin_pass()
        try:
            yield
        finally:
            for norm in asking:
                norm.gathering = False
        for norm in asking:
            norm.end_pass()


def start(model: nn.Module) -> None:
    """The weights have their initial values: normalizers that begin from these do so now."""
    for module in model.modules():
        if isinstance(module, Weighted):
            module.start()


def pending(model: nn.Module) -> bool:
    """Whether any normalizer waits for the first minibatch."""
    return any(isinstance(norm, WeightNormalizer) and norm.pending for norm in normalizers(model))


@contextmanager
def starting(model: nn.Module) -> Iterator[None]:
    """Training mode for a pass over the first minibatch: those that wait for it begin, running statistics rest."""
    waiting = [norm for norm in normalizers(model) if isinstance(norm, WeightNormalizer)]
    with training_without_tracking(model, waiting):
        for norm in waiting:
            norm.starting = True
        try:
            yield
        finally:
            for norm in waiting:
                norm.starting = False
