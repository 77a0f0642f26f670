"""Layers of normalizers of weights and blocks in every layout and option, and their naive references."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import contract
import pytest
import torch.nn.functional as F
from reference.weights import REFERENCES
from torch import Tensor

from normbench.battery.cases import KERNEL, WEIGHT_KINDS, WEIGHT_LAYOUTS
from normbench.errors import NormbenchError

NORMS = [n for n in contract.NAMES if set(WEIGHT_KINDS) & set(contract.declares(n)["kinds"])]
LAYOUTS = dict(zip(("linear", "sequence", "convolution"), WEIGHT_LAYOUTS, strict=True))
WEIGHTS = contract.subject(NORMS[0])  # all take the same inputs
NUMBERS = {
    "init_scale": [1.0, 0.5],
    "momentum": [0.1, 0.4],
    "iterations": [1, 3],
    "start_iterations": [15, 2],
    "eps": [1e-12, 1e-3],  # weight standardization has 1e-5
    "gain_init": [1 / 1.21, 0.5],
}


def every_option(name: str) -> Iterator[dict[str, Any]]:
    """The defaults, then all combinations of switches and choices, each with both values of the numbers."""
    options = contract.declares(name)["options"]
    switches = {
        key: [True, False] if spec["type"] == "bool" else spec["choices"]
        for key, spec in options.items()
        if spec["type"] == "bool" or "choices" in spec
    }
    assert set(options) <= set(switches) | set(NUMBERS), "give a new number its two values in NUMBERS"
    yield contract.defaults(name)
    for values, turn in itertools.product(itertools.product(*switches.values()), (0, 1)):
        numbers = {key: both[turn] for key, both in NUMBERS.items() if key in options}
        yield numbers | dict(zip(switches, values, strict=True))


def activations(name: str) -> list[str]:
    return list(contract.declares(name).get("activations") or ["tanh"])


def make(
    name: str, layout: str, options: Mapping[str, Any], seed: int | None = 0, bias: bool = True, activation: str = ""
) -> Any:
    """A small layer in float64; parameters away from their start unless seed is None."""
    subject = contract.subject(name)
    return subject.make(LAYOUTS[layout], dict(options), seed, bias=bias, activation=activation)


def inputs(layout: str, batch: int = 4, seed: int = 0, scale: float = 2.0, shift: float = 1.0) -> Tensor:
    return WEIGHTS.inputs(LAYOUTS[layout], batch, seed, scale, shift)


def rows(x: Tensor, layout: str) -> Tensor:
    """The inputs of every output value, one row each."""
    if layout == "convolution":
        x = F.unfold(x, KERNEL).transpose(1, 2)
    return x.flatten(0, -2)


def units(y: Tensor, layout: str) -> Tensor:
    return y.movedim(LAYOUTS[layout].index("feature"), -1).flatten(0, -2)


def reference(name: str, layer: Any, options: Mapping[str, Any], activation: str) -> Any:
    """The naive one with this layer's numbers; after `make`, before any pass."""
    weight = layer.linear.weight.detach().flatten(1).numpy().copy()
    bias = None if layer.linear.bias is None else layer.linear.bias.detach().numpy().copy()
    naive = REFERENCES[name](weight, bias, activation, options)
    for key, value in {**dict(layer.norm.named_parameters()), **dict(layer.norm.named_buffers())}.items():
        if key in ("gain", "u", "v"):
            assert getattr(naive, key).shape in (value.shape, (0,))
            setattr(naive, key, value.detach().numpy().copy())
    return naive


def servable(name: str, layout: str, options: Mapping[str, Any]) -> bool:
    try:
        make(name, layout, options)
    except NormbenchError as refusal:
        assert "over a time axis there is no rule" in str(refusal) and layout == "sequence"
        return False
    return True


CASES = [
    pytest.param(name, layout, options, id=f"{name}-{layout}-{number}")
    for name in NORMS
    for layout, axes in LAYOUTS.items()
    if set(axes) <= set(contract.declares(name)["axes"])
    for number, options in enumerate(every_option(name))
    if servable(name, layout, options)
]
every_case = pytest.mark.parametrize(("name", "layout", "options"), CASES)
Options = dict[str, Any]


def settled(layer: Any, layout: str) -> Any:
    """After a first minibatch, so that nothing waits for one."""
    layer.train()(inputs(layout, batch=6, seed=77))
    assert not layer.norm.pending
    return layer
