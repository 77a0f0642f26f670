"""What a pass asks of all normalizers of a model: evaluation in a variant, statistics at rest, gathering, starting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from torch import nn

from normbench.norms.base import Normalizer, Stack, WeightNormalizer
from normbench.norms.layers import Weighted
from normbench.variants import USUAL, Variant, text


def normalizers(model: nn.Module) -> Iterator[Normalizer]:
    return (module for module in model.modules() if isinstance(module, Normalizer))


def variants(model: nn.Module) -> list[Variant]:
    """The variants that every evaluation of this model has beside the usual one, e.g. `[{"momentum": 0.01}]`."""
    return list({text(variant): variant for norm in normalizers(model) for variant in norm.variants}.values())


@contextmanager
def inference(model: nn.Module, variant: Variant = USUAL) -> Iterator[None]:
    """Evaluation mode, with this variant in every normalizer that serves it."""
    was_training = model.training
    model.eval()
    for norm in normalizers(model):
        norm.variant = variant if norm.serves(variant) else USUAL
    try:
        yield
    finally:
        model.train(was_training)
        for norm in normalizers(model):
            norm.variant = USUAL


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


@contextmanager
def gathering(model: nn.Module, variants: Sequence[Variant] = (USUAL,)) -> Iterator[None]:
    """Training mode for a pass over the training batches: those that ask for it keep its statistics, running ones rest.

    They ask for it for an evaluation in these variants. After an error inside, what they gathered is no population.
    """
    asking = [norm for norm in normalizers(model) if any(map(norm.by_pass, variants))]
    with training_without_tracking(model):
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
    with training_without_tracking(model):
        for norm in waiting:
            norm.starting = True
        try:
            yield
        finally:
            for norm in waiting:
                norm.starting = False
