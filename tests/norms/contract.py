"""Every normalizer in `conf/norm`, every combination of its switches, every layout that it says it serves."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from normbench.config import compose
from normbench.norms import base
from normbench.norms.sites import Choice, Site

ACTIVATIONS = {"pre_activation", "post_activation", "state"}
# those of weights and blocks have a contract of their own in test_norms_weights.py
NORMS = [
    n for n in compose.choices("norm") if n != "none" and ACTIVATIONS & set(compose.declaration("norm", n)["kinds"])
]
LAYOUTS = (
    ("batch", "feature"),
    ("batch", "time", "feature"),
    ("batch", "feature", "space", "space"),
    ("batch", "space", "space", "feature"),
)
FEATURES, SPACE = 5, (2, 3)
SIZES = {"batch": 4, "time": 3, "feature": FEATURES}
NUMBERS = {"eps": [1e-5, 1e-3], "momentum": [0.1, 0.4], "gain_init": [1.0, 0.1], "also_momenta": [[], [0.01, 0.7]]}


def declares(name: str) -> Mapping[str, Any]:
    return compose.declaration("norm", name)


def defaults(name: str) -> dict[str, Any]:
    node = compose.choice("norm", name)
    return {option: node[option] for option in declares(name)["options"]}


def layouts(name: str) -> list[tuple[str, ...]]:
    """The layouts of activations that a normalizer declares to serve."""
    facts = declares(name)
    if not {"pre_activation", "post_activation", "state"} & set(facts["kinds"]):
        return []
    return [a for a in LAYOUTS if set(a) <= set(facts["axes"]) and set(facts.get("needs") or []) <= set(a)]


def every_option(name: str) -> Iterator[dict[str, Any]]:
    """The defaults, then all combinations of switches and choices; numbers take turns with their other value."""
    yield defaults(name)
    options = declares(name)["options"]
    switches = {
        key: [True, False] if spec["type"] == "bool" else spec["choices"]
        for key, spec in options.items()
        if not spec.get("list") and (spec["type"] == "bool" or "choices" in spec)
    }
    for turn, values in enumerate(itertools.product(*switches.values())):
        numbers = {key: both[turn % 2] for key, both in NUMBERS.items() if key in options}
        yield defaults(name) | numbers | dict(zip(switches, values, strict=True))


def sizes(axes: tuple[str, ...], batch: int = 4) -> tuple[int, ...]:
    space = iter(SPACE)
    return tuple(next(space) if axis == "space" else batch if axis == "batch" else SIZES[axis] for axis in axes)


def site(axes: tuple[str, ...]) -> Site:
    kinds = ("pre_activation", "post_activation", "state")
    return Site("hidden.0", kinds, axes, FEATURES, SPACE if "space" in axes else ())


def make(name: str, axes: tuple[str, ...], options: Mapping[str, Any], seed: int | None = 0) -> base.Normalizer:
    """The normalizer in float64, its parameters away from their start unless seed is None."""
    choice = Choice(name, "pre_activation", dict(options), False, False, 1)
    module = base.build(site(axes), choice).double()
    if seed is not None:
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in module.parameters():
                parameter += torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
    return module


def draw(shape: tuple[int, ...], seed: int = 0, scale: float = 2.0, shift: float = 1.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return shift + scale * torch.randn(shape, generator=generator, dtype=torch.float64)
