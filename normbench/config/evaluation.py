"""Whether a stored run has every evaluation that a run to be asks for; its id says nothing of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from normbench import schema
from normbench.config import compose, identity
from normbench.config.updates import updates_per_epoch
from normbench.errors import NormbenchError
from normbench.norms.sites import Choice
from normbench.stored import MONITOR

if TYPE_CHECKING:
    from normbench.config.spec import Spec

EVALUATIONS = ("variants", "also_at_best", "splits", "reshuffled", "whole", "also_after", "tasks")
EARLIER = {  # what a configuration meant before these options
    **dict.fromkeys(EVALUATIONS, ()), "test": "each", "reshuffles": 0, "every": 1, "unit": "epochs",
    "strides": {}, "drop_last": False, "samples": 1,
}  # fmt: skip


def asked(config: Mapping[str, Any]) -> dict[str, Any]:
    """What a configuration, perhaps an old stored one, says of evaluation."""
    return {**EARLIER, **config.get("eval", {}), "monitor": {**MONITOR, **config.get("monitor", {})}}


def default(choices: Mapping[str, Choice]) -> dict[str, Any]:
    """The options at each site that decide how a trained run is evaluated without being asked for more."""
    return {path: {key: c.options[key] for key in c.evaluation} for path, c in choices.items()}


def accepts(run: Spec, stored: Mapping[str, Any], any_length: bool = False) -> bool:
    """Whether a run of the stored configuration, with the same id, has every evaluation that `run` asks for.

    any_length: as if the stored run had the length of `run`.
    """
    had, wanted = asked(stored), asked(run.config)
    further = any(wanted[key] for key in EVALUATIONS if key != "splits") or wanted["reshuffles"]
    if further and any(not set(wanted[key]) <= set(had[key]) for key in EVALUATIONS):
        return False
    if wanted["reshuffles"] > had["reshuffles"] or wanted["every"] % had["every"]:
        return False
    if any(wanted[key] != had[key] for key in ("unit", "strides", "drop_last", "samples", "monitor")):
        return False
    length, own_length = _length(stored), _length(run.config)
    if not any_length and length != own_length:
        # the last evaluation is tested in any case, and another length has another last one
        if had["test"] != "each" or not _was_evaluated_there(run, had, length):
            return False
    elif had["test"] != "each" and wanted["test"] == "each":
        return False
    return _default_is_equal(run, stored)


def _length(config: Mapping[str, Any]) -> tuple[int, int]:
    return int(config["train"]["epochs"]), int(config["train"].get("steps", 0))


def _was_evaluated_there(run: Spec, had: Mapping[str, Any], length: tuple[int, int]) -> bool:
    """Whether a run of this length and evaluation was evaluated where `run` ends, if it is longer."""
    if run.probe:
        return True
    epochs, steps = length
    if (steps or updates_per_epoch(run.config) * epochs) <= run.steps:
        return True
    every = had["every"] * (updates_per_epoch(run.config) if had["unit"] == "epochs" else 1)
    return run.steps % every == 0 or run.steps in had["also_after"]


def _default_is_equal(run: Spec, stored: Mapping[str, Any]) -> bool:
    """Whether the default evaluation of the stored run is that of `run`, at each site."""
    if run.probe or not any(default(run.sites).values()):
        return True
    try:  # what else decides it is the same in runs of one id
        facts = compose.choice("norm", stored["norm"]["name"], run.config_dir)["declares"]
        norm = {**schema.legacy_defaults(facts), **stored["norm"], "declares": facts}
        return default(identity.assign({**run.config, "norm": norm}, run.config_dir)) == default(run.sites)
    except (NormbenchError, KeyError, TypeError):  # of a version that had other options
        return False
