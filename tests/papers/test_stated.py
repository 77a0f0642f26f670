"""Numbers that amendments state: they follow from the published runs, and are told beside the reason."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from judged import arms, artifact, direction

from normbench.config import FIDELITIES
from normbench.papers import artifact as artifacts
from normbench.papers import per_example_effects, stated
from normbench.papers.claims import Artifact
from normbench.runs import pack

RESULTS = Path(__file__).parents[2] / "results"
NUMBER: dict[str, Any] = {
    "part": "p", "unit": "points", "test": "t", "fidelity": "paper", "control": "", "seeds": {"from": 1, "to": 5},
    "effect": -1.02, "interval": [-1.316, -0.724], "level": 0.95,
}  # fmt: skip


def amended(**changes: Any) -> Artifact:
    amendment = {"claim": "C1", "change": "x", "reason": "y.", "stated": [NUMBER | changes]}
    return replace(artifact(direction(), open=["rate"]), amendments=(amendment,))


def differing(found: Artifact, n: int = 5) -> list[str]:
    runs = [*arms(-1.0, n), *arms(-2.0, n, control="lr-low")]
    return list(stated.differing(found, "paper", runs, per_example_effects.Contrasts({})))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, ""),
        ({"effect": -1.0, "interval": [-1.32, -0.7]}, "the pack gives -1.02, -1.316"),
        ({"effect": -1.0, "interval": [-1.3, -0.7]}, ""),
        ({"interval": [-1.316, -0.726]}, "the pack gives"),
        ({"interval": None}, "the pack gives"),
        ({"control": "lr-low"}, "lr-low: -1.02, -1.316, -0.724 points, but the pack gives -2.02"),
        ({"control": "lr-low", "effect": -2.02, "interval": [-2.316, -1.724]}, ""),
        ({"control": "lr-high"}, "no pack has its runs of seed 1, 2, 3, 4, 5"),
        ({"seeds": {"from": 4, "to": 7}}, "no pack has its runs of seed 6, 7"),
        ({"level": 0.9}, "the pack gives -1.02, -1.24"),
        ({"test": "sign", "effect": -1.0, "interval": None}, ""),
        ({"test": "sign"}, "median -1.02, "),
        ({"fidelity": "proxy", "effect": 7.0}, ""),
    ],
)
def test_a_number_that_the_runs_do_not_give_is_told(changes: dict[str, Any], told: str) -> None:
    found = differing(amended(**changes))
    assert len(found) == bool(told) and told in "".join(found)
    assert not found or found[0].startswith("the amendment of C1 states p, seeds ")


def test_pages_tell_the_numbers_after_the_reason() -> None:
    (amendment,) = amended(control="lr-low", fidelity="proxy").amendments
    told = stated.reason(amendment)
    assert told == "y. From published runs: p, seeds 1 to 5, lr-low, proxy: −1 points (−1.3 to −0.72)."
    assert stated.reason({"reason": "y."}) == "y."


@pytest.mark.slow
@pytest.mark.parametrize("name", artifacts.ids())
def test_what_is_stated_follows_from_the_packs(name: str) -> None:
    found = artifacts.read(name)
    told = {number["fidelity"] for amendment in found.amendments for number in amendment.get("stated", ())}
    for fidelity in filter(told.__contains__, FIDELITIES):
        place = RESULTS / name / fidelity
        runs, known = pack.load(place / pack.NAME).runs, per_example_effects.load(place / per_example_effects.NAME)
        assert list(stated.differing(found, fidelity, runs, known)) == []
