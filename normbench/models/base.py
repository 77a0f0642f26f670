"""What every model is, how one is built from a configuration, and the paired initial draws."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from normbench.norms.base import own_parameters, pending, start, starting
from normbench.norms.sites import Choice, Site, declared
from normbench.streams import stream


class Model(nn.Module):
    """A paper's model: `forward(inputs, targets)` gives the mean loss of a batch.

    `evaluate(inputs, targets)` gives metrics per example, each of shape (B,), e.g. `{"nll": ..., "error": ...}`.
    """

    def evaluate(self, inputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        raise NotImplementedError


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
    al. 2015, eq. 10). Each parameter has a stream of its own, keyed by (seed, name): arms share their draws. Weight
    normalizers then begin from the weights just drawn.
    """
    skip = own_parameters(model)
    for name, parameter in model.named_parameters():
        if name in skip:
            continue
        if parameter.dim() < 2:
            parameter.zero_()
            continue
        fan_out, fan_in = parameter.shape[0], parameter[0].numel()
        bound = (6 / (fan_in + (fan_out if scheme == "glorot_uniform" else 0))) ** 0.5
        draw = stream(seed, "init", name).uniform(-bound, bound, tuple(parameter.shape))
        parameter.copy_(torch.from_numpy(draw))
    start(model)


@torch.no_grad()
def start_from_data(model: Model, inputs: Tensor, targets: Tensor) -> None:
    """Data-dependent initialization, where a normalizer has one: a pass over the run's first minibatch."""
    if pending(model):
        with starting(model):
            model(inputs, targets)
