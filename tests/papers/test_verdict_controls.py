"""What controls, settings that a paper leaves open, make of a claim's word."""

from dataclasses import replace

from judged import (
    BN,
    Plan,
    arms,
    artifact,
    direction,
    only,
    verdict,
)

from normbench.papers.describe import describe_effect
from normbench.runs.record import RunRecord


def test_reproduced_and_contradicted_need_every_control_with_five_seeds() -> None:
    claim = artifact(direction(), open=["learning rate"])
    for effect, word, both in ((1.0, "opposite", "contradicted"), (-1.0, "holds", "reproduced")):
        own, low, high = (arms(effect, control=name) for name in ("", "lr-low", "lr-high"))
        not_run = f"{word} at the paper's setting; controls not run"
        found = only(claim, own)
        assert (found["verdict"], found["setting"], found["robustness"]) == (not_run, word, "not run")
        assert found["evidence"].endswith("; not run under lr-low, lr-high")
        some, number = only(claim, own + low), {1.0: "0.98", -1.0: "−1.02"}[effect]
        assert some["verdict"] == not_run
        assert some["evidence"].endswith(f"; the same under lr-low ({number}); not run under lr-high")
        assert verdict(claim, own + low + arms(effect, n=4, control="lr-high")) == not_run
        robust = only(claim, own + low + high)
        assert (robust["verdict"], robust["robustness"]) == (both, "robust")
        assert robust["evidence"].endswith(f"; the same under lr-low ({number}), lr-high ({number})")
        assert [(c["name"], c["word"]) for c in robust["controls"]] == [("lr-low", word), ("lr-high", word)]
        assert len(robust["runs"]) == 10
        other = only(claim, own + low + arms(-effect, control="lr-high"))
        assert (other["verdict"], other["robustness"]) == (f"{word} at the paper's setting; controls depend", "depends")
        open_ = only(claim, own + low + arms(0.0, control="lr-high"))
        assert open_["verdict"] == f"{word} at the paper's setting; controls undecided"
        assert open_["evidence"].endswith(f"; the same under lr-low ({number}); undecided under lr-high (−0.02)")
    assert verdict(claim, arms(0.0) + arms(1.0, control="lr-low")) == "undecided"


def test_a_control_of_another_word_shows_the_part_that_makes_it() -> None:
    sure, turns = direction(name="sure"), direction(name="turns", contrast=((1.0, {"arm": "rms"}), (-1.0, BN)))
    claim = artifact(sure, turns, open=["learning rate"])

    def runs(control: str, effect: float) -> list[RunRecord]:
        return arms(-1.0, control=control) + [
            replace(run, arm="rms", id=f"rms-{run.id}") for run in arms(effect, control=control) if run.arm == "ln"
        ]

    found = only(claim, [*runs("", -1.0), *runs("lr-low", -2.0), *runs("lr-high", 3.0)])
    assert found["robustness"] == "depends"
    assert found["evidence"].endswith("; the same under lr-low (−1.02); opposite under lr-high (turns: 2.98)")


def test_what_no_control_varies_keeps_a_word_from_being_robust() -> None:
    varied = artifact(direction(), open=["learning rate", "task"])
    claim = replace(varied, claims=(replace(varied.claims[0], unvaried=("task",)),))
    own, low, high = (arms(-1.0, control=name) for name in ("", "lr-low", "lr-high"))
    assert verdict(varied, own + low + high) == "reproduced"
    found = only(claim, own + low + high)
    assert found["verdict"] == "holds at the paper's setting; controls not run"
    assert found["evidence"].endswith("; the same under lr-low (−1.02), lr-high (−1.02); no control varies the task")
    other = only(claim, own + low + arms(1.0, control="lr-high"))
    assert other["robustness"] == "depends", "what differs is known, whatever else is open"


def test_an_undecided_claim_shows_what_speaks_against_it() -> None:
    unclear, clear, against = direction(name="u", test="sign"), direction(), direction(name="a", expect="positive")
    found = only(artifact(unclear, clear, against), arms(-0.4))
    assert [part["word"] for part in found["parts"]] == ["undecided", "holds", "opposite"]
    assert found["setting"] == "undecided" and found["evidence"].startswith("1 of 3 parts hold, 1 opposite; a: ")
    assert found["evidence"].endswith("; opposite, but not at the level that one of 3 parts is asked for")


def test_another_level_than_95_percent_is_said() -> None:
    found = only(artifact(direction(), added=(5, 10)), arms(-1.0, n=10), planned=Plan(10))
    assert "] (97.5 %), n = 10" in found["evidence"] and "%" not in only(artifact(direction()), arms(-1.0))["evidence"]
    assert describe_effect(found["parts"][0]).endswith("] (97.5 %)")
    signed = only(artifact(direction(test="sign")), arms(-1.0, n=6), planned=Plan(6))["parts"][0]
    assert describe_effect(signed).startswith("median points −0.95 [")


def test_a_robust_negligible_claim_says_how_many_parts_each_control_rests_on() -> None:
    parts = (direction(name=name, delta={"is": delta, "why": "w"}) for name, delta in (("a", 1.5), ("b", 0.7)))
    claim = artifact(*parts, open=["learning rate"])
    low, high = arms(0.0, control="lr-low"), arms(-0.6, control="lr-high")
    found = only(claim, arms(0.0) + low + high)
    assert found["verdict"] == "negligible (1 of 2 parts)" and found["robustness"] == "robust"
    assert found["evidence"].endswith("; the same under lr-low (2 of 2 parts), lr-high (1 of 2 parts)")
    apart = replace(claim, claims=(replace(claim.claims[0], controls=("lr-low",)),))
    assert only(apart, arms(0.0) + low)["verdict"] == "negligible (2 of 2 parts)"


def test_another_negligible_part_under_a_control_is_not_the_same_word() -> None:
    """Here one part is surely small, there the other: no part is so wherever the paper leaves a choice."""
    here, there = (
        direction(name=arm, contrast=((1.0, {"arm": arm}), (-1.0, BN)), delta={"is": 0.7, "why": "w"})
        for arm in ("rms", "ada")
    )
    claim = artifact(here, there, open=["learning rate"])

    def runs(control: str, rms: float, ada: float) -> list[RunRecord]:
        made = {arm: arms(effect, control=control) for arm, effect in (("rms", rms), ("ada", ada))}
        others = [
            replace(run, arm=arm, id=f"{arm}-{run.id}") for arm, of in made.items() for run in of if run.arm == "ln"
        ]
        return [run for run in made["rms"] if run.arm != "ln"] + others

    low, high = runs("lr-low", 0.0, -0.6), runs("lr-high", -0.6, 0.0)
    found = only(claim, runs("", 0.0, -0.6) + low + high)
    assert (found["setting"], found["robustness"]) == ("negligible", "undecided")
    assert found["verdict"] == "negligible (1 of 2 parts) at the paper's setting; controls undecided"
    assert found["evidence"].endswith(", lr-high (1 of 2 parts), but no part is so under all of them")
