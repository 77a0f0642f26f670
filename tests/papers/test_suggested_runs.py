"""What would decide an open claim."""

import math
from dataclasses import dataclass, replace
from typing import Any

import pytest
from judged import arms, artifact, direction, part_result
from ruled import UNIT, effects

from normbench.core.keys import Range
from normbench.papers import describe, rules, suggested_runs, verdicts
from normbench.papers.claims import Artifact, Claim, Looks, Part
from normbench.stats import statistics as stats

LOW, HIGH = (arms(-2.0, control=name) for name in ("lr-low", "lr-high"))
UNSURE = arms(-0.9, spread=5.0, control="lr-low")
THIRD = stats.signs_needed(1 / 3) or 0
PART = part_result(  # undecided, of a spread of 1
    word="undecided", effect=-0.1, sd=1.0, tost=(-2.0, 1.0),
    prediction=stats.prediction_interval(effects(-0.1, UNIT / math.sqrt(2.5))),
)  # fmt: skip


@dataclass
class Five:
    """Seeds 1 to 5 everywhere, and 1 as the smallest effect."""

    artifact: Artifact
    fidelity: str = "paper"

    def sha256(self, claim: Claim) -> str:
        return "r"

    def seeds(self, part: Part, control: str, alone: Any) -> list[int]:
        return [seed for seed in range(1, 6) if alone is None or seed in alone]

    def smallest_effect(self, part: Part) -> float | None:
        return 1.0


def judged(claims: Any, runs: Any, **more: Any) -> verdicts.Verdicts:
    return verdicts.judge(Five(claims), runs, None, **more)


@pytest.mark.parametrize(
    ("runs", "kind", "number", "hours"),
    [
        (arms(-3.0, n=4), "missing", 2, 0.02),
        (arms(-3.0), "missing", 20, 0.2),  # those of the controls
        (arms(-3.0) + LOW + HIGH, None, 0, 0),  # reproduced: nothing is open
        (arms(-3.0) + arms(-3.0, control="lr-low") + arms(3.0, control="lr-high"), None, 0, 0),  # they depend: known
        (arms(-0.9, spread=5.0), "seeds", 28, 0.28),  # all planned runs are there, and they do not decide
        (arms(-3.0) + UNSURE + HIGH, "seeds", 28, 0.28),
        (arms(-3.0) + UNSURE + arms(-0.9, spread=5.0, control="lr-high"), "seeds", 56, 0.56),
    ],
)
def test_what_would_decide_and_its_cost(runs: Any, kind: str | None, number: int, hours: float) -> None:
    claims = artifact(direction(), open=["learning rate"])
    found = suggested(claims, [replace(run, seconds=36.0) for run in runs])
    assert (found and (found.kind, found.runs, found.hours)) == (kind and (kind, number, hours))
    if kind == "missing":
        controls = " --controls" if number == 20 else ""
        assert found and found.command == f"normbench reproduce x/fig --only C1{controls}"


def suggested(claims: Any, runs: Any, fidelity: str = "paper") -> dict[str, Any] | None:
    plan = Five(claims, fidelity)
    (found,) = verdicts.judge(plan, runs, None).claims
    return suggested_runs.suggested_runs(claims.claims[0], found, runs, plan)


def test_a_choice_that_no_control_varies_has_to_be_planned() -> None:
    claims = artifact(direction(), open=["rate", "task"], unvaried=("task",))
    found = suggested(claims, arms(-3.0) + LOW + HIGH)
    assert found and (found.kind, found.under) == ("control", ("task",))


def test_the_runs_until_the_next_look_are_suggested_and_no_others() -> None:
    class Twelve(Five):
        def seeds(self, part: Part, control: str, alone: Any) -> list[int]:
            return list(range(1, 13))

    claims = artifact(direction(), open=["rate"], looks=Looks((5, 8, 12)))
    of_controls = "--controls --seeds 1-5"
    for n, effect, runs, seeds, words in ((3, 0.0, 4, 5, "--seeds 4-5"), (5, 0.0, 6, 8, "--seeds 6-8"),
                                          (6, 0.0, 4, 8, "--seeds 7-8"), (5, -90.0, 20, 5, of_controls)):  # fmt: skip
        plan, trained = Twelve(claims), arms(effect, n=n, spread=20.0)
        (found,) = verdicts.judge(plan, trained, None).claims
        more = found.suggestion
        assert more and (more.kind, more.runs, more.seeds) == ("missing", runs, seeds)
        assert more.command == f"normbench reproduce x/fig --only C1 {words}"
        assert f"the look at n = {seeds}" in describe.suggestion(found)
        planned = f"look {found.look} of 3 (n = 5, 8, 12)"
        assert (planned in describe.evidence(found)) == (n >= 5)
        assert ("the next look is at n = 8" in describe.evidence(found)) == (n >= 5 and not effect)


def test_a_missing_run_costs_as_much_as_those_of_its_arm() -> None:
    slow = [replace(run, seconds=360.0 if run.arm == "bn" else 36.0) for run in arms(-3.0)]
    for runs, hours in ((slow[2:], 0.11), ([run for run in slow if (run.arm, run.seed) != ("bn", 1)], 0.1)):
        found = suggested(artifact(direction()), runs)
        assert found and found.hours == hours


def test_what_is_open_below_the_papers_fidelity_has_a_suggestion_too() -> None:
    claims = artifact(direction())
    whole, own = (
        replace(claims, claims=(replace(claims.claims[0], seeds=seeds),))
        for seeds in ({"paper": Range(5, 5)}, {"reduced": Range(2, 3)})
    )
    size = artifact(direction(kind="size", paper=1.0, band=1.0), kind="size")
    for claims, fidelity, n, runs in (
        (whole, "reduced", 3, 4), (whole, "reduced", 5, None), (whole, "smoke", 3, None),
        (own, "reduced", 1, 4),  # seeds 2 and 3 of both arms
        (size, "reduced", 5, None),  # it is not decidable there
    ):  # fmt: skip
        found = suggested(claims, arms(-3.0, n=n, fidelity=fidelity), fidelity)
        assert (found and found.runs) == runs


@pytest.mark.parametrize(
    ("part", "kind", "seeds"),
    [
        ({}, "seeds", 787),
        ({"delta": 1.0, "tost": (-0.5, 0.5)}, "seeds", 5),  # small already, on seeds that had been seen
        ({"test": "sign", "n": 12, "sign_test": {"above": 4, "below": 8}, "effect": None}, "seeds", THIRD),
        ({"test": "sign", "n": 36, "sign_test": {"above": 4, "below": 8}}, "out of reach", None),  # two in three tie
        ({"test": "sign", "n": 9, "sign_test": {"above": 0, "below": 6}}, "seeds", THIRD),  # one in three ties
        ({"test": "sign", "sign_test": {"above": 0, "below": 5}}, "seeds", 6),
        ({"test": "sign", "n": 6, "sign_test": {"above": 3, "below": 3}}, "out of reach", None),
        ({"kind": "equivalence", "within": 0.6}, "seeds", 27),
        ({"kind": "equivalence", "within": 0.6, "examples": 900, "sd": 1.2}, "out of reach", None),
        ({"examples": 900}, "seeds", 787),  # beside such a spread that of the examples is nothing
        ({"prediction": None, "sd": 1e-17}, "out of reach", None),  # all seeds alike up to rounding
        ({"kind": "equivalence", "within": 0.05}, "out of reach", None),
        ({"kind": "no_worse", "within": 0.6, "better": "higher"}, "seeds", 27),
        ({"kind": "no_worse", "within": 0.05, "better": "higher"}, "out of reach", None),
        ({"kind": "size"}, "single runs", None),
        ({"effect": None, "sd": None}, "no mean", 6),
    ],
)
def test_the_seeds_that_would_decide_follow_the_kind_of_part(part: Any, kind: str, seeds: int | None) -> None:
    claim = artifact(direction()).claims[0]
    found = suggested_runs.suggested_seeds(claim, [replace(PART, **part)], [], rules.HOLDS)
    assert found and (found.kind, found.seeds) == (kind, seeds)
    if not part:
        for parts, alpha in (([PART], 0.025), ([PART, replace(PART, effect=-0.05)], 0.05)):  # two looks; the most
            more = suggested_runs.suggested_seeds(claim, parts, [], rules.HOLDS, alpha)
            assert more and (more.seeds or 1001) > 787
