"""Whether a stored run has every evaluation that a run to be asks for; its id says nothing of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from normbench.config import compose, identity
from normbench.config.updates import updates_per_epoch
from normbench.errors import NormbenchError
from normbench.norms.sites import Choice

if TYPE_CHECKING:
    from normbench.config.spec import Spec

LISTS = ("variants", "also_at_best", "splits", "reshuffled", "whole", "also_after", "tasks")  # one may have more
EQUAL = ("unit", "strides", "drop_last", "samples")


def accepts(spec: Spec, stored: Mapping[str, Any], any_length: bool = False) -> bool:
    """Whether a run of the stored configuration, with the same id, has every evaluation that `spec` asks for.

    any_length: as if the stored run had the length of `spec`.
    """
    has, wanted = {**compose.root_defaults("eval"), **stored["eval"]}, spec.config["eval"]
    same_length = any_length or _length(stored) == _length(spec.config)
    return (
        all(set(wanted[key]) <= set(has[key]) for key in LISTS)
        and all(wanted[key] == has[key] for key in EQUAL)
        and stored["monitor"] == spec.config["monitor"]
        and wanted["every"] % has["every"] == 0
        and wanted["reshuffles"] <= has["reshuffles"]
        # the last evaluation is tested in any case, and another length has another last one
        and (has["test"] == "each" or (same_length and wanted["test"] == has["test"]))
        and (same_length or _was_evaluated_there(spec, has, *_length(stored)))
        and (spec.probe or _has_default(spec, stored))
    )


def _length(config: Mapping[str, Any]) -> tuple[int, int]:
    return int(config["train"]["epochs"]), int(config["train"]["steps"])


def _was_evaluated_there(spec: Spec, has: Mapping[str, Any], epochs: int, steps: int) -> bool:
    """Whether a run of this length and evaluation was evaluated where `spec` ends, if it is longer."""
    if spec.probe or (steps or updates_per_epoch(spec.config) * epochs) <= spec.steps:
        return True
    every = has["every"] * (updates_per_epoch(spec.config) if has["unit"] == "epochs" else 1)
    return spec.steps % every == 0 or spec.steps in has["also_after"]


def _has_default(spec: Spec, stored: Mapping[str, Any]) -> bool:
    """Whether the default evaluation of the stored run is that of `spec`, at each site."""
    wanted = _default(spec.sites)
    if not any(wanted.values()):
        return True
    try:
        return _default(identity.assign(compose.restore(stored, spec.config_dir), spec.config_dir)) == wanted
    except NormbenchError:  # of a version that had other options
        return False


def _default(sites: Mapping[str, Choice]) -> dict[str, Any]:
    """The options at each site that decide how a trained run is evaluated without being asked for more."""
    return {path: {key: choice.options[key] for key in choice.evaluation} for path, choice in sites.items()}
