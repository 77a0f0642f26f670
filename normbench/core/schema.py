"""Checks options: every YAML choice declares the types and limits of its options under `declares`.

`hashed: false` marks an option that does not change training.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Mapping
from typing import Any

from normbench.errors import BadInput, unknown

TYPES = {"int": int, "float": float, "bool": bool, "str": str}
DESCRIPTIONS = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "a name"}
BOUNDS = {  # by the key of a declaration: what must hold of a value and its bound, and the words where it does not
    "min": (operator.ge, "is too small: at least"),
    "max": (operator.le, "is too large: at most"),
    "below": (operator.lt, "is too large: it must be below"),
}
LARGEST = 2**63  # limit of whole numbers: readers of runs refuse larger ones


def check(place: str, value: Any, spec: Mapping[str, Any]) -> Any:
    """`value` in its declared type (whole numbers become float), or NormbenchError with what `place` takes."""
    if spec.get("list"):
        if not isinstance(value, list):
            raise BadInput(f"{place}={value} must be a list of {spec['type']}, such as {place}=[...].")
        if spec.get("filled") and not value:
            raise BadInput(f"{place}=[] must have at least one value.")
        if len(value) != spec.get("length", len(value)):
            raise BadInput(f"{place}={value} must have {spec['length']} values.")
        return [_check_one(place, item, spec) for item in value]
    if spec.get("map"):
        if not isinstance(value, Mapping) or not (value or spec.get("optional")):
            raise BadInput(f"{place}={value} must be a map to {spec['type']}, such as {place}={{NAME: ...}}.")
        return {str(name): _check_one(f"{place}.{name}", item, spec) for name, item in value.items()}
    return _check_one(place, value, spec)


def _check_one(place: str, value: Any, spec: Mapping[str, Any]) -> Any:
    wanted: Any = TYPES[spec["type"]]
    if wanted is str and "pattern" in spec and type(value) is int:
        value = str(value)  # Hydra parses the number of a step as an int
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value) if abs(value) < 1e300 else math.inf
    if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
        given = "" if value is not None else f" Give one: {place}=..."
        raise BadInput(f"{place}={value} is not {DESCRIPTIONS[spec['type']]}.{given}")
    if "pattern" in spec and isinstance(value, str) and not re.fullmatch(spec["pattern"], value):
        raise BadInput(f"{place}={value} is not possible: it must be of the form {spec['pattern']}.")
    if "choices" in spec and value not in spec["choices"]:
        raise unknown(f"{place}={value} is not possible.", str(value), [str(c) for c in spec["choices"]])
    if wanted is float and not math.isfinite(value):
        raise BadInput(f"{place}={value} must be finite.")
    if wanted is int and not abs(value) < LARGEST:
        raise BadInput(f"{place}={value!s:.40} is too large: it must be below 2^63.")
    for key, (holds, fault) in BOUNDS.items():
        if key in spec and not holds(value, spec[key]):
            raise BadInput(f"{place}={value} {fault} {spec[key]}.")
    return value


def check_options(place: str, node: Mapping[str, Any], specs: Mapping[str, Any], allowed: set[str]) -> dict[str, Any]:
    """All declared options of a node in their declared types. `allowed`: keys that are checked elsewhere."""
    for key in node:
        if key not in specs and key not in allowed:
            names = [f"{place}.{name}" for name in specs]
            raise unknown(f"{place}.{key} is not an option.", f"{place}.{key}", names)
    for key in specs:
        if key not in node:
            raise BadInput(f"{place}.{key} is declared but has no value: give {place}.{key}=VALUE.")
    return {key: check(f"{place}.{key}", node[key], spec) for key, spec in specs.items()}


def unhashed(declares: Mapping[str, Any]) -> tuple[str, ...]:
    """Options that do not change training: how a run is evaluated, how often it is saved."""
    return tuple(key for key, spec in (declares.get("options") or {}).items() if not spec.get("hashed", True))
