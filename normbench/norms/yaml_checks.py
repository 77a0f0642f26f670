"""Checks of the YAML of a user's normalizer: facts and options, which `normbench.norms.sites` explains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from normbench import schema
from normbench.errors import NormbenchError, did_you_mean, unknown
from normbench.norms.sites import AXES, COMMON_KEYS, KINDS


def check_facts(place: str, declares: Mapping[str, Any]) -> None:
    """Check the facts that a normalizer's YAML declares, all but its options. Errors: NormbenchError, with the key."""
    for key, names in (("kinds", KINDS), ("axes", AXES), ("needs", AXES)):
        found = declares.get(key, [])
        if not isinstance(found, list) or not (found or key == "needs"):
            raise NormbenchError(f"{place}: declares.{key}: {found} must be a list of {', '.join(names)}.")
        for value in found:
            if value not in names:
                raise unknown(f"{place}: declares.{key}: {value} is not known.", str(value), names)
    layouts = declares.get("layouts", [])
    if not isinstance(layouts, list) or not all(isinstance(axes, list) and set(axes) <= set(AXES) for axes in layouts):
        raise NormbenchError(f"{place}: declares.layouts: {layouts} must be a list of lists of {', '.join(AXES)}.")
    activations = declares.get("activations", [])
    if not isinstance(activations, list) or not all(isinstance(name, str) for name in activations):
        raise NormbenchError(f"{place}: declares.activations: {activations} must be a list of names.")
    options = list(map(str, declares.get("options") or {}))
    _check_apart(place, declares.get("apart", {}), options)
    for key in ("groups", "single_batch", "mode_dependent", "state", "variants"):
        found = declares.get(key)
        if found is None or (key == "mode_dependent" and isinstance(found, bool)):
            continue
        mapped = key in ("state", "variants")
        if not isinstance(found, Mapping if mapped else str):
            form = "a map from option to value" if mapped else "the name of an option"
            raise NormbenchError(f"{place}: declares.{key}: {found} must be {form}.")
        if key == "variants" and not all(isinstance(values, list) for values in declares[key].values()):
            raise NormbenchError(f"{place}: declares.variants: {found} must have a list of values for each option.")
        for option in map(str, found if isinstance(found, Mapping) else [found]):
            if option not in options:
                raise unknown(f"{place}: declares.{key}: {option} is not in declares.options.", option, options)


def _check_apart(place: str, found: Any, options: list[str]) -> None:
    if not isinstance(found, Mapping) or not all(isinstance(values, Mapping) for values in found.values()):
        raise NormbenchError(f"{place}: declares.apart: {found} must be a map from axis to options with their values.")
    for axis, values in found.items():
        if axis not in AXES:
            raise unknown(f"{place}: declares.apart: {axis} is not known.", str(axis), AXES)
        for option in map(str, values):
            if option not in options:
                raise unknown(f"{place}: declares.apart: {option} is not in declares.options.", option, options)


def check_options(place: str, node: Mapping[str, Any]) -> None:
    """Check that a normalizer's YAML declares every option that it has, and has a value of its type for each."""
    options = node["declares"].get("options") or {}
    for key, default in (("sites", "null"), ("preceding_bias", "site")):
        if key not in node:
            raise NormbenchError(f"{place}: '{key}' must be given; usual is {key}: {default}.")
    for key in node:
        if key not in options and key not in COMMON_KEYS:
            message = f"{place}: norm.{key} is not an option: declares.options has no line for it."
            raise NormbenchError(message + did_you_mean(str(key), map(str, options)))
    for key, spec in options.items():
        if key not in node:
            raise NormbenchError(f"{place}: norm.{key} is declared but has no value: write {key}: VALUE beside name.")
        if node[key] is not None:  # a command gives a value to an option that is null
            schema.check(f"{place}: norm.{key}", node[key], spec)
