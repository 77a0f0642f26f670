"""The battery's cases with values for options that are numbers, and the naive references."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from reference import common

from normbench.battery.cases import ACTIVATION_KINDS, SPACE, Axes, Subject, sizes
from normbench.config import compose
from normbench.norms import base

PRESETS = [n for n in compose.choices("norm") if "like" in compose.declaration("norm", n)]  # of those that are tried
NAMES = [n for n in compose.choices("norm") if n not in ("none", *PRESETS)]
# those of weights and blocks have references of their own, in test_norms_weights.py
NORMS = [n for n in NAMES if set(ACTIVATION_KINDS) & set(compose.declaration("norm", n)["kinds"])]
# Values that options take turns with; the others get them from their declaration.
VALUES: dict[str, list[Any]] = {
    "eps": [1e-5, 1e-3],
    "momentum": [0.1, 0.4],
    "gain_init": [1.0, 0.1],
    "also_momenta": [[], [0.01, 0.7]],
    "num_groups": [1, 2, 3],
    "p": [1.0, 0.4],
    "t_max": [100, 2],
    "ghost_size": [3, 4],
    "warmup_updates": [10000, 0, 2],
    "warmup_frac": [1.0, 0.0, 2e-4],  # the last: limits that move from update 1 on, to 5 and to 8
    "eps_w": [1e-4, 1e-2],
    "eps_v": [0.0, 1e-2],
    "configuration": ["TTFF", "TFTT", "FTFF", "FFFT"],
}


def declares(name: str) -> Mapping[str, Any]:
    return compose.declaration("norm", name)


def defaults(name: str) -> dict[str, Any]:
    return subject(name).defaults


def numbers(name: str) -> dict[str, list[Any]]:
    """Two or more values for every option that is a number, or a list of them."""
    node, found = compose.choice("norm", name), {}
    for option, spec in declares(name)["options"].items():
        default = node[option]
        if option in VALUES and isinstance(default, type(VALUES[option][0])):
            found[option] = VALUES[option]
        elif {"min", "max"} <= set(spec) and spec["type"] == "int":
            found[option] = [spec["min"], spec["max"]]
        elif spec.get("list"):
            found[option] = [[], list(spec.get("choices") or [])[::-1]]
        elif spec["type"] in ("int", "float"):
            found[option] = [default, default + 1 if spec["type"] == "int" else default * 0.5]
    return found


def variants(name: str, module: base.Normalizer) -> list[dict[str, Any]]:
    """The default evaluation, those of every evaluation, and those that a user may ask for."""
    declared = [{option: value} for option, values in declares(name).get("variants", {}).items() for value in values]
    by_option = [{"populations": "slot"}, {"populations": "pooled"}]  # the reference has them as options alone
    others = [v for v in declared if module.serves(v) and v not in (*by_option, *module.variants)]
    return [{}, *map(dict, module.variants), *others]


def subject(name: str) -> Subject:
    return Subject.registered(name, numbers=numbers(name))


def layouts(name: str) -> list[Axes]:
    return subject(name).layouts()


def every_option(name: str) -> Iterator[dict[str, Any]]:
    return subject(name).option_rows()


def all_rows(name: str, axes: Axes) -> list[dict[str, Any]]:
    return list(every_option(name))


def in_turn(name: str, axes: Axes) -> list[dict[str, Any]]:
    """The defaults, and of the others those whose turn it is at this layout: each at one of them."""
    default, *others = every_option(name)
    places = layouts(name)
    return [default, *others[places.index(axes) :: len(places)]]


def make(
    name: str, axes: Axes, options: Mapping[str, Any], seed: int | None = 0, space: tuple[int, ...] = SPACE
) -> base.Normalizer:
    module = subject(name).make(axes, dict(options), seed, space)
    assert isinstance(module, base.Normalizer)
    return module


def masks(name: str, axes: Axes, batch: int, seed: int) -> list[torch.Tensor | None]:
    return subject(name).masks(axes, batch, seed)


def pair(
    name: str, axes: Axes, options: Mapping[str, Any], seed: int | None = 0, space: tuple[int, ...] = SPACE
) -> tuple[base.Normalizer, common.Base]:
    """A normalizer and its naive reference with the same parameters."""
    module = make(name, axes, options, seed, space)
    reference = common.of(name)(axes, sizes(axes, space=space), options)
    for attribute, parameter in module.named_parameters(recurse=False):
        assert attribute not in ("gain", "bias") or parameter.shape == reference.affine_shape
        setattr(reference, attribute, parameter.detach().numpy().copy())
    return module, reference


def near(ours: torch.Tensor, theirs: Any, context: object, tolerance: float = 1e-10) -> None:
    torch.testing.assert_close(
        ours.detach().double(),
        torch.as_tensor(theirs).detach(),
        rtol=tolerance,
        atol=tolerance,
        msg=lambda text: f"{text}\n{context}",
    )


def _learning_rows() -> list[tuple[str, dict[str, Any]]]:
    """Names and options of those whose evaluation goes by what training batches were like."""
    rows = []
    for name in NORMS:
        for options in every_option(name):
            by_own_batch = options.get("eval_stats") == "batch" or options.get("configuration") == "FFFF"
            if subject(name).mode_dependent(options) and not by_own_batch and (name, options) not in rows:
                rows.append((name, options))
    return rows


LEARNING_ROWS = _learning_rows()
