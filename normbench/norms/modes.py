"""The passes through a model that are no updates: each sets mode and `ForwardContext` of its normalizers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from normbench.core.eval_variants import DEFAULT, Variant, text
from normbench.norms.base import Normalizer, WeightNormalizer
from normbench.norms.context import ForwardContext
from normbench.norms.layers import Weighted


def normalizers(model: nn.Module) -> Iterator[Normalizer]:
    return (module for module in model.modules() if isinstance(module, Normalizer))


def variants(model: nn.Module) -> list[Variant]:
    """The variants of every evaluation of this model besides the default one, e.g. `[{"momentum": 0.01}]`."""
    return list({text(variant): variant for norm in normalizers(model) for variant in norm.variants}.values())


def generators(device: torch.device) -> dict[str, torch.Generator]:
    """Torch's own generators that a pass on this device may draw from, by type of device."""
    by_device = {"cpu": torch.default_generator}
    if device.type == "cuda":
        torch.cuda.init()
        by_device["cuda"] = torch.cuda.default_generators[device.index or 0]
    return by_device


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
    kept = [*(tensor for *_, tensor in buffers), *frozen]
    tensors = [tensor for tensor in kept if tensor is not None and not is_lazy(tensor)]
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
def _passing(
    model: nn.Module,
    training: bool,
    contexts: Mapping[Normalizer, ForwardContext],
    learning: Collection[Normalizer] = (),
) -> Iterator[None]:
    """A pass in this mode and these contexts, without a trace but in normalizers that are `learning`."""
    was_training = model.training
    before = {norm: norm.forward_context for norm in contexts}
    model.train(training)
    for norm, context in contexts.items():
        norm.forward_context = context
    try:
        with without_trace(model, learning):
            yield
    finally:
        model.train(was_training)
        for norm, context in before.items():
            norm.forward_context = context


@contextmanager
def inference(model: nn.Module, variant: Variant = DEFAULT) -> Iterator[None]:
    """Evaluation mode, without a trace, with this variant in every normalizer that serves it."""
    served = {norm: variant if norm.serves(variant) else DEFAULT for norm in normalizers(model)}
    contexts = {norm: ForwardContext(update_running_stats=False, variants=(v,)) for norm, v in served.items()}
    with _passing(model, False, contexts):
        yield


@contextmanager
def stacked(model: nn.Module, variants: Sequence[Variant]) -> Iterator[ForwardContext]:
    """Evaluation mode with all of these variants at once, for models whose normalizers all have `stacks`.

    Before each batch the caller sets `examples` of the context; the batch has len(variants) times as many rows.
    """
    context = ForwardContext(update_running_stats=False, variants=tuple(variants))
    with _passing(model, False, dict.fromkeys(normalizers(model), context)):
        yield context


@contextmanager
def training_without_tracking(model: nn.Module) -> Iterator[None]:
    """Training mode in which nothing is learned: the training-mode pass of an evaluation."""
    with _passing(model, True, dict.fromkeys(normalizers(model), ForwardContext(update_running_stats=False))):
        yield


@contextmanager
def gathering(model: nn.Module, variants: Sequence[Variant] = (DEFAULT,)) -> Iterator[None]:
    """Training mode for a pass over the training batches, whose statistics these variants need for their evaluation.

    Running statistics do not change. After an error inside the block the gathered statistics are not used.
    """
    gatherers = [norm for norm in normalizers(model) if any(map(norm.by_pass, variants))]
    contexts = {n: ForwardContext(update_running_stats=False, gathering=n in gatherers) for n in normalizers(model)}
    with _passing(model, True, contexts, gatherers):
        for norm in gatherers:
            norm.begin_pass()
        yield
        for norm in gatherers:
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
    weights = [norm for norm in normalizers(model) if isinstance(norm, WeightNormalizer)]
    context = ForwardContext(update_running_stats=False, starting=True)
    with _passing(model, True, dict.fromkeys(normalizers(model), context), weights):
        yield
