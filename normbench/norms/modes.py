"""Modes of all normalizers of a model for a pass: a variant, frozen statistics, gathering, starting."""

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
    """The variants of every evaluation of this model besides the default one, e.g. `[{"momentum": 0.01}]`."""
    return list({text(variant): variant for norm in normalizers(model) for variant in norm.variants}.values())


def generators(device: torch.device) -> dict[str, torch.Generator]:
    """Torch's own generators that a pass on this device may draw from, by type of device."""
    found = {"cpu": torch.default_generator}
    if device.type == "cuda":
        torch.cuda.init()
        found["cuda"] = torch.cuda.default_generators[device.index or 0]
    return found


def seed_torch(seed: int, device: torch.device) -> None:
    """As `torch.manual_seed`, which would import torch's compiler."""
    for generator in generators(device).values():
        generator.manual_seed(seed)


@contextmanager
def without_trace(model: nn.Module, learning: Collection[Normalizer] = ()) -> Iterator[None]:
    """A pass that is not training: normalizers, except those in `learning`, and torch's generators are restored.

    Restored are buffers, and parameters without a gradient, since some classes change these in place.
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
        for module, name, buffer in buffers:  # a class may have replaced the buffer by another tensor
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
            vars(norm).pop("variant", None)  # the class attribute is the default variant


@contextmanager
def stacked(model: nn.Module, variants: Sequence[Variant]) -> Iterator[Stack]:
    """Evaluation mode with all of these variants at once, for models whose normalizers all have `stacks`.

    Before each batch the caller sets `examples` of the stack; the batch has len(variants) times as many rows.
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
    """Training mode in which only the normalizers in `learning` change: the training-mode pass of an evaluation."""
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
    """Training mode for a pass over the training batches, whose statistics these variants need for their evaluation.

    Running statistics do not change. After an error inside the block the gathered statistics are not used.
    """
    gathering_norms = [norm for norm in normalizers(model) if any(map(norm.by_pass, variants))]
    with training_without_tracking(model, gathering_norms):
        for norm in gathering_norms:
            norm.gathering = True
            norm.begin_pass()
        try:
            yield
        finally:
            for norm in gathering_norms:
                norm.gathering = False
        for norm in gathering_norms:
            norm.end_pass()


def start(model: nn.Module) -> None:
    """Let normalizers that begin from the initial weights do so: these have their values now."""
    for module in model.modules():
        if isinstance(module, Weighted):
            module.start()


def pending(model: nn.Module) -> bool:
    """Whether any normalizer waits for the first minibatch."""
    return any(isinstance(norm, WeightNormalizer) and norm.pending for norm in normalizers(model))


@contextmanager
def starting(model: nn.Module) -> Iterator[None]:
    """Training mode for a pass over the first minibatch: pending normalizers begin, running statistics stay."""
    waiting = [norm for norm in normalizers(model) if isinstance(norm, WeightNormalizer)]
    with training_without_tracking(model, waiting):
        for norm in waiting:
            norm.starting = True
        try:
            yield
        finally:
            for norm in waiting:
                norm.starting = False
