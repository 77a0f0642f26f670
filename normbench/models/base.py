"""What every model is, how one is built from a configuration, and the paired initial draws."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from normbench.norms.base import own_parameters, pending, start, starting
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
    initialize(model, config["model"]["init"], config["seed"])
    return model


@torch.no_grad()
def initialize(model: nn.Module, scheme: str, seed: int) -> None:
    """Weights W (out, in) ~ U(-b, b), biases 0; a normalizer's own parameters stay as it made them.

    `glorot_uniform`: b = sqrt(6 / (in + out)) (Glorot and Bengio 2010, eq. 16); `he_uniform`: b = sqrt(6 / in) (He et
    al. 2015, eq. 10). Of a convolution, in and out are times the kernel's size. `glorot_orthogonal`: matrices of dense
    layers orthogonal (Saxe et al. 2014), of the QR decomposition of a normal one, as Keras; all else `glorot_uniform`,
    a recurrent layer's gates as one matrix.
    Each parameter has a stream of its own, keyed by (seed, name): arms share their draws. Weight normalizers then
    begin from the weights just drawn.
    """
    skip = own_parameters(model)
    dense = {f"{name}.weight" for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    for name, parameter in model.named_parameters():
        if name in skip:
            continue
        if parameter.dim() < 2:
            parameter.zero_()
            continue
        draw = stream(seed, "init", name)
        if scheme == "glorot_orthogonal" and name in dense:
            parameter.copy_(torch.from_numpy(_orthogonal(draw, *parameter.shape)))
            continue
        fan_out, fan_in = parameter[:, 0].numel(), parameter[0].numel()
        bound = (6 / (fan_in + (0 if scheme == "he_uniform" else fan_out))) ** 0.5
        parameter.copy_(torch.from_numpy(draw.uniform(-bound, bound, tuple(parameter.shape))))
    start(model)


def _orthogonal(draw: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    """Orthonormal rows or columns, whichever are fewer."""
    q, r = np.linalg.qr(draw.standard_normal((max(rows, columns), min(rows, columns))))
    q *= np.sign(np.diag(r))  # else not uniform over all orthogonal matrices
    return q if rows >= columns else q.T


@torch.no_grad()
def start_from_data(model: Model, inputs: Tensor, targets: Tensor) -> None:
    """Data-dependent initialization, where a normalizer or the model has one, from the run's first minibatch."""
    with starting(model):
        if pending(model):
            model(inputs, targets)
        model.rescale(inputs)
