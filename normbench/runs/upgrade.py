"""Runs of form 1 in form 2, for those who read them: after the old hash was checked, before anything else sees them.

Form 1 named variants of an evaluation in words, `"TTFF populations=recalibrated shuffle=3"`: form 2 has fields. It said
`eval.populations` where `eval.also_at_best` says it now, and had the length of a run in epochs alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from normbench.runs.record import curve_sha256

OLD, TODAYS = 1, 2  # the forms
BARE = "configuration"  # the one option whose values stood without its name
FIELDS = {"shuffle": "order", "block": "block"}


def record(old: Mapping[str, Any]) -> dict[str, Any]:
    """One record of form 1 in form 2. Not of form 1: ValueError, KeyError, TypeError."""
    new = dict(old)
    words = new.pop("variant", "")
    if not isinstance(words, str):
        raise TypeError(f"variant is {words!r:.40}")
    variant: dict[str, Any] = {}
    for word in words.split():
        option, equals, value = word.partition("=")
        if option in FIELDS:
            new[FIELDS[option]] = int(value)
        elif equals:
            variant[option] = float(value) if option == "momentum" else value
        else:
            variant[BARE] = word
    return new | ({"variant": variant} if variant else {})


def config(old: Mapping[str, Any]) -> dict[str, Any]:
    """A stored configuration as it would be written now; one of today is left as it is."""
    asked = dict(old.get("eval") or {})
    if not asked.keys() & {"populations", "blocks"}:
        return dict(old)
    asked.pop("blocks", None)  # of the test examples; outcomes per example took their place
    if "populations" in asked:
        asked["also_at_best"] = [f"populations={kind}" for kind in asked.pop("populations")]
    return {**old, "eval": asked}


def was(old: str, new: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What a run keeps of `old`, its curve's hash in form 1: nothing where the records, now `new`, have it still."""
    return {} if curve_sha256(new) == old else {"schema": 1, "curve_sha256": old}


def run(old: Mapping[str, Any]) -> dict[str, Any]:
    """A run as a line of a pack of form 1 has it, as in form 2; such a line has no hash to check."""
    new = [record(one) for one in old["records"]]
    return {**old, "records": new, "config": config(old["config"]), "was": was(curve_sha256(old["records"]), new)}
