"""Every normalizer in `conf/norm`, its switches in all pairs, every layout that it says it serves."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from reference import common

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
FEATURES, SPACE, TIME = 6, (2, 3), 3
# Values that options take turns with; the others get them from their declaration.
VALUES: dict[str, list[Any]] = {
    "eps": [1e-5, 1e-3],
    "momentum": [0.1, 0.4],
    "gain_init": [1.0, 0.1],
    "also_momenta": [[], [0.01, 0.7]],
    "num_groups": [1, 2, 3],
    "p": [1.0, 0.5],
    "t_max": [100, 2],
    "ghost_size": [3, 4],
    "warmup_frac": [1.0, 0.0, 2e-4],  # the last: limits that move from update 1 on, to 5 and to 8
    "eps_w": [1e-4, 1e-2],
    "eps_v": [0.0, 1e-2],
    "configuration": ["TTFF", "TFTT", "FTFF", "FFFT"],
}
Axes = tuple[str, ...]


def declares(name: str) -> Mapping[str, Any]:
    return compose.declaration("norm", name)


def defaults(name: str) -> dict[str, Any]:
    node = compose.choice("norm", name)
    return {option: node[option] for option in declares(name)["options"]}


def layouts(name: str) -> list[Axes]:
    """The layouts that a normalizer declares to serve."""
    facts = declares(name)
    return [a for a in LAYOUTS if set(a) <= set(facts["axes"]) and set(facts.get("needs") or []) <= set(a)]


def values(option: str, spec: Mapping[str, Any], default: Any) -> list[Any]:
    """What an option takes in the tests: both ways of a switch, every choice, two numbers."""
    if option in VALUES and isinstance(default, type(VALUES[option][0])):
        return VALUES[option]
    if {"min", "max"} <= set(spec) and spec["type"] == "int":
        return [spec["min"], spec["max"]]
    if spec.get("list"):
        return [[], list(spec.get("choices") or [])[::-1]]
    if spec["type"] == "bool":
        return [True, False]
    if "choices" in spec:
        return list(spec["choices"])
    return [default, default + 1 if spec["type"] == "int" else default * 0.5]


def every_option(name: str) -> Iterator[dict[str, Any]]:
    """The defaults, then rows in which every pair of values of two options occurs (all of them: 2^n rows)."""
    yield defaults(name)
    specs = declares(name)["options"]
    yield from pairs({option: values(option, spec, defaults(name)[option]) for option, spec in specs.items()})


def pairs(factors: Mapping[str, list[Any]]) -> list[dict[str, Any]]:
    """Greedy all-pairs: each row starts from a pair not seen yet and takes, per factor, what adds most new ones."""
    names = list(factors)
    if len(names) == 1:
        return [{names[0]: value} for value in factors[names[0]]]

    def key(a: int, i: int, b: int, j: int) -> tuple[int, int, int, int]:
        return (a, i, b, j) if a < b else (b, j, a, i)

    sizes = [len(values) for values in factors.values()]
    left = {
        (a, i, b, j)
        for a, b in itertools.combinations(range(len(names)), 2)
        for i, j in itertools.product(range(sizes[a]), range(sizes[b]))
    }
    rows = []
    while left:
        a, i, b, j = min(left)
        row = {a: i, b: j}
        for c in range(len(names)):
            if c not in row:
                gain = [sum(key(c, k, d, row[d]) in left for d in row) for k in range(sizes[c])]
                row[c] = gain.index(max(gain))
        left -= {key(c, row[c], d, row[d]) for c, d in itertools.combinations(row, 2)}
        rows.append({names[c]: factors[names[c]][row[c]] for c in sorted(row)})
    return rows


def sizes(axes: Axes, batch: int = 4, time: int = TIME, space: tuple[int, ...] = SPACE) -> tuple[int, ...]:
    places = iter(space)
    known = {"batch": batch, "time": time, "feature": FEATURES}
    return tuple(next(places) if axis == "space" else known[axis] for axis in axes)


def site(axes: Axes, space: tuple[int, ...] = SPACE) -> Site:
    return Site("hidden.0", tuple(ACTIVATIONS), axes, FEATURES, space if "space" in axes else ())


def make(
    name: str, axes: Axes, options: Mapping[str, Any], seed: int | None = 0, space: tuple[int, ...] = SPACE
) -> base.Normalizer:
    """The normalizer in float64, its parameters away from their start unless seed is None."""
    choice = Choice(name, "pre_activation", dict(options), False, False, 1)
    module = base.build(site(axes, space), choice).double()
    if seed is not None:
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in module.parameters():
                parameter += torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
    return module


def pair(
    name: str, axes: Axes, options: Mapping[str, Any], seed: int | None = 0, space: tuple[int, ...] = SPACE
) -> tuple[base.Normalizer, common.Base]:
    """A normalizer and its naive reference with the same parameters."""
    module = make(name, axes, options, seed, space)
    reference = common.of(name)(axes, sizes(axes, space=space), options)
    for attribute in ("gain", "bias"):
        parameter = getattr(module, attribute, None)
        if parameter is not None:
            assert parameter.shape == reference.affine_shape
            setattr(reference, attribute, parameter.detach().numpy().copy())
    return module, reference


def draw(shape: tuple[int, ...], seed: int = 0, scale: float = 2.0, shift: float = 1.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return shift + scale * torch.randn(shape, generator=generator, dtype=torch.float64)


def valid(batch: int, seed: int, time: int = TIME) -> torch.Tensor:
    """A mask (batch, time) of sequences of at least one step, some of them shorter than the longest."""
    lengths = torch.randint(1, time + 1, (batch,), generator=torch.Generator().manual_seed(seed))
    return torch.arange(time) < lengths[:, None]


def masks(name: str, axes: Axes, batch: int, seed: int) -> list[torch.Tensor | None]:
    """No mask; and where it is read, sequences of mixed lengths, and a last step that nobody has."""
    if not declares(name).get("reads_mask") or "time" not in axes:
        return [None]
    empty = valid(batch, seed + 1)
    empty[:, -1] = False
    return [None, valid(batch, seed), empty]


def near(ours: torch.Tensor, theirs: Any, context: object, tolerance: float = 1e-10) -> None:
    torch.testing.assert_close(
        ours.detach().double(),
        torch.as_tensor(theirs).detach(),
        rtol=tolerance,
        atol=tolerance,
        msg=lambda text: f"{text}\n{context}",
    )
