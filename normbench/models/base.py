"""What every model is, and how one is built from a configuration."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from normbench.models.init import initialize
from normbench.norms.base import pending, starting
from normbench.norms.sites import Choice, Site, declared
from normbench.streams import stream


class Model(nn.Module):
    """A paper's model: `forward(inputs, targets)` gives the mean loss of a batch.

    `evaluate(inputs, targets)` gives metrics per example, each of shape (B,), e.g. `{"nll": ..., "error": ...}`.
    A training pass may leave further sums over its batch in `tally`; the running record has their means over the epoch.
    """

    tally: Mapping[str, Tensor] = MappingProxyType({})
    at: tuple[int, int] | None = None  # the seed, and the number of the update that is being computed

    def draws(self, purpose: str) -> np.random.Generator | None:
        """What an update draws dropout or noise from, keyed by (seed, purpose, update): the same for all arms.

        None outside of one: passes that evaluate, or gather statistics, draw nothing.
        """
        return None if self.at is None else stream(self.at[0], purpose, self.at[1])

    def evaluate(self, inputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        raise NotImplementedError

    def prepare(self, inputs: Tensor) -> Tensor:
        """What the layers before the first normalizer make of the inputs, which the model then takes in their place.

        Here the inputs themselves. An evaluation of many passes computes it once, for all examples of a split.
        """
        return inputs

    def rescale(self, inputs: Tensor) -> None:
        """What the model itself changes of its initial weights on the run's first minibatch: here nothing."""


@contextmanager
def update(model: Model, seed: int, number: int) -> Iterator[None]:
    """The pass inside computes the update of this number, counted from 0 over the whole run."""
    model.at = (seed, number)
    try:
        yield
    finally:
        model.at = None


class Sites:
    """The sites of a model with the normalizers chosen for them, as a model's constructor reads them."""

    def __init__(self, config: Mapping[str, Any], choices: Mapping[str, Choice]) -> None:
        self.sites: dict[str, Site] = declared(config)
        self.choices = choices

    def __call__(self, path: str) -> tuple[Site, Choice | None]:
        """The site at `path` and its normalizer, if it has one."""
        return self.sites[path], self.choices.get(path)


def build(config: Mapping[str, Any], choices: Mapping[str, Choice]) -> Model:
    """The configured model with its initial weights: `normbench.models.NAME.build(config, sites)`."""
    module = importlib.import_module(f"normbench.models.{config['model']['name']}")
    model: Model = module.build(config, Sites(config, choices))
    initialize(model, config)
    return model


@torch.no_grad()
def start_from_data(model: Model, inputs: Tensor, targets: Tensor) -> None:
    """Data-dependent initialization, where a normalizer or the model has one, from the run's first minibatch."""
    with starting(model):
        if pending(model):
            model(inputs, targets)
        model.rescale(inputs)
