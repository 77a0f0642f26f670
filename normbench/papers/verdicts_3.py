"""Verdicts of schema 3, which have sentences and one hash of all rules, read as those of schema 4."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from normbench.errors import NormbenchError
from normbench.papers.artifact import Plan
from normbench.papers.claims import Artifact
from normbench.papers.suggested_runs import NOTHING

_CLAIM: dict[str, Any] = dict(undecidable="", share=None, scattered=False, unvaried=[], beside=[], alone={})
_PART: dict[str, Any] = dict(why="", about=[], sides=[], quantity="", place="", better="", clock="", required=None)


def upgraded(content: Mapping[str, Any], damaged: str) -> dict[str, Any]:
    """With all keys of schema 4. Their own sentences, `evidence` and `reason`, stay in the place of new ones."""
    try:
        return {**content, "claims": [_claim(claim, content["rules_sha256"]) for claim in content["claims"]]}
    except (KeyError, TypeError, AttributeError):
        raise NormbenchError(damaged) from None


def _claim(claim: Mapping[str, Any], rules_sha256: str) -> dict[str, Any]:
    parts = [_part(part) for part in claim["parts"]]
    effects = [part["effect"] for part in parts]
    return {
        **_CLAIM,
        **claim,
        "deciding": (effects.index(claim["effect"]) if claim["effect"] in effects else 0) if parts else None,
        "suggestion": {**NOTHING, "kind": "", "text": claim["way_on"]} if claim["way_on"] else None,
        "rules_sha256": rules_sha256,
        "parts": parts,
        "reported": [_part(part) for part in claim["reported"]],
        "controls": [
            {"deciding": 0, "share": None, **control, "parts": [_part(part) for part in control["parts"]]}
            for control in claim["controls"]
        ],
    }


def _part(part: Mapping[str, Any]) -> dict[str, Any]:
    return {**_PART, "scale": "log" if part["unit"] == "log ratio" else "linear", **part}


def with_rules(content: dict[str, Any], artifact: Artifact, fidelity: str) -> dict[str, Any]:
    """With today's hashes where verdicts of schema 3 were judged by today's rules, else as they are."""
    if content["schema"] != 3:
        return content
    plan = Plan(artifact, fidelity)
    if content["rules_sha256"] != plan.sha256_3:
        return content
    today = {claim.id: plan.sha256(claim) for claim in artifact.claims}
    claims = [{**claim, "rules_sha256": today.get(claim["id"], "")} for claim in content["claims"]]
    return {**content, "claims": claims}
