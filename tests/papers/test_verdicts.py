"""Verdicts on synthetic runs: true, false, tied, missing, few, looked at twice, in several parts and settings."""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judged import (
    BN,
    ERROR,
    LN,
    NLL,
    TIME,
    Plan,
    arms,
    artifact,
    direction,
    final_run,
    judge,
    only,
    timed_run,
    verdict,
)

from normbench.errors import NormbenchError
from normbench.papers.claims import Part
from normbench.runs.record import RunRecord
from normbench.stats.examples import spread

# direction


def test_a_true_a_false_and_an_undecided_direction() -> None:
    claim = artifact(direction())
    assert verdict(claim, arms(-1.0)) == "reproduced"
    assert verdict(claim, arms(+1.0)) == "contradicted"
    assert verdict(claim, arms(-0.1)) == "undecided"
    for effect in (0.0, -1.0):
        alike = only(claim, arms(effect, spread=0.0))
        assert alike["verdict"] == "undecided" and alike["interval"] is None
        assert alike["evidence"].endswith("all seeds alike: a spread of zero decides nothing")


def test_an_effect_that_is_surely_smaller_than_the_smallest_one_is_negligible_on_either_side() -> None:
    claim, runs = artifact(direction()), arms(-0.5)
    assert verdict(claim, runs, planned=Plan(5)) == "reproduced"
    for effect in (-0.5, 0.5):
        found = only(claim, arms(effect), planned=Plan(5, delta=1.0))
        assert found["verdict"] == "negligible" and found["effect"] == pytest.approx(effect - 0.02)
        assert found["evidence"].endswith("against ±1") and "90 % interval" in found["evidence"]
    seen = only(replace(claim, seen=1), runs, planned=Plan(5, delta=1.0))
    assert seen["verdict"] == "undecided" and "inside, but post hoc" in seen["evidence"], "one of five had been seen"
    two = artifact(direction(name="a"), direction(name="b"))
    assert verdict(two, runs, planned=Plan(5, delta=1.0)) == "negligible (2 of 2 parts)"
    own = artifact(direction(delta={"is": 1.0, "why": "w"}))
    assert verdict(own, runs) == "negligible", "a part's own, without a plan"


def test_a_hypothesis_of_our_own_has_words_of_its_own() -> None:
    claim = artifact(direction(), ours=True)
    assert [verdict(claim, arms(effect)) for effect in (-1.0, 1.0, 0.0)] == ["supported", "refuted", "undecided"]


def test_the_fields_of_a_verdict() -> None:
    content = judge(artifact(direction()), arms(-1.0), "paper")
    assert list(content) == [
        *("schema", "artifact", "fidelity", "command", "deviations", "claims_sha256", "rules_sha256", "amendments"),
        *("note", "expected_wrong", "claims"),
    ]
    assert content["command"] == "normbench reproduce x/fig --fidelity paper" and content["deviations"] == ["d"]
    controlled = judge(artifact(direction()), [*arms(-1.0), *arms(-1.0, control="lr-low")], "paper")
    assert controlled["command"] == f"{content['command']} --controls"
    (claim,) = content["claims"]
    assert (claim["n"], claim["level"], claim["alpha"], claim["unit"]) == (5, 0.95, 0.05, "points")
    assert (claim["setting"], claim["robustness"], claim["verdict"]) == ("holds", "", "reproduced")
    assert claim["effect"] == pytest.approx(-1.02)
    sd = 0.23874673
    assert claim["interval"] == pytest.approx(
        [-1.02 - 2.776445 * sd / 5**0.5, -1.02 + 2.776445 * sd / 5**0.5], rel=1e-5
    )
    assert claim["detectable"] == pytest.approx(1.682 * sd, rel=1e-3)
    assert len(claim["runs"]) == 10 and claim["runs"] == sorted(claim["runs"])
    measured = "p: final test error (evaluation mode), points −1.02 [−1.32, −0.724]"
    assert claim["evidence"] == f"{measured}, n = 5"
    (part,) = claim["parts"]
    assert part["word"] == "holds" and part["correlation"] > 0.9 and part["seeds"] == [1, 2, 3, 4, 5]
    assert part["prediction"][0] < claim["interval"][0]


def test_an_undecided_one_says_what_was_seen_and_what_would_decide() -> None:
    claim = only(artifact(direction()), arms(-0.1))
    assert claim["evidence"] == (
        "p: final test error (evaluation mode), points −0.12 [−0.416, 0.176], n = 5; claimed is less than 0; "
        "detectable at n = 5: 0.402 (80 % power)"
    )
    assert "; claimed is less than 0" in only(artifact(direction()), arms(1.0))["evidence"]
    assert "claimed" not in only(artifact(direction()), arms(-1.0))["evidence"]


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_no_word_below_five_seeds(n: int) -> None:
    for effect in (-5.0, 5.0):
        claim = only(artifact(direction()), arms(effect, n=n, spread=0.01))
        assert claim["verdict"] == "undecided" and claim["n"] == n
        assert f"n = {n}; no verdict below n = 5" in claim["evidence"]
        assert (claim["interval"] is None) == (n == 1)
        planned = only(artifact(direction()), arms(effect, n=n, spread=0.01), planned=Plan(n))  # as at smoke fidelity
        assert planned["verdict"] == "undecided" and "no verdict below n = 5" in planned["evidence"]


def test_seeds_that_were_seen_before_an_amendment_decide_nothing() -> None:
    """Fresh and old seeds pooled would be reproduced here: of ten, five are far below zero."""
    seen, fresh = arms(-9.0), [replace(run, seed=run.seed + 5) for run in arms(0.1)]
    claim = artifact(direction(), seeds=5)
    alone = replace(claim, claims=(replace(claim.claims[0], seeds={"paper": range(6, 11)}),))
    assert only(claim, [*seen, *fresh])["verdict"] == "reproduced"
    judged = only(alone, [*seen, *fresh])
    assert (judged["verdict"], judged["n"]) == ("undecided", 5)
    assert judged["parts"][0]["seeds"] == [6, 7, 8, 9, 10] and judged["evidence"].endswith(
        "judged on seeds 6 to 10 alone"
    )
    assert only(alone, seen)["verdict"] == "not run"
    smoke = [replace(run, fidelity="smoke") for run in seen]
    assert only(alone, smoke, "smoke")["verdict"] == "holds (smoke)", "seeds of its own at paper alone: all count here"
    alone = replace(claim, claims=(replace(claim.claims[0], seeds={"smoke": range(6, 11)}),))
    assert only(alone, smoke, "smoke")["setting"] == "not run" and only(alone, seen)["verdict"] == "reproduced"


def test_nothing_is_decided_before_the_planned_n_and_nothing_beyond_it_counts() -> None:
    """The n of a claim of ten seeds is ten: who looks at five, six, ... finds some effect at one of them."""
    claim = artifact(direction(), seeds=10)
    early = only(claim, arms(-1.0, n=9), planned=Plan(10))
    assert early["verdict"] == "undecided" and early["evidence"].endswith("no verdict before the planned n = 10")
    assert verdict(claim, arms(-1.0, n=10), planned=Plan(10)) == "reproduced"
    assert only(claim, arms(-1.0, n=4), planned=Plan(10))["evidence"].count("no verdict") == 1
    late = only(claim, [*arms(-0.1), *arms(-1.0, n=10)[10:]], planned=Plan(5))
    assert (late["verdict"], late["parts"][0]["seeds"]) == ("undecided", [1, 2, 3, 4, 5])
    opened = artifact(direction(), open=["rate"], seeds=10)
    runs = [*arms(1.0, n=10), *arms(1.0, n=5, control="lr-low"), *arms(1.0, n=5, control="lr-high")]
    assert verdict(opened, runs, planned=Plan(10)) == "contradicted"
    assert verdict(opened, runs, planned=Plan(10, 10)) == "opposite at the paper's setting; controls not run"


def test_test_examples_widen_the_interval() -> None:
    """Ten seeds on one test set: which examples it has is drawn too, and no seed draws it again."""
    runs, claim = arms(-1.0, n=10), artifact(direction())
    plain = only(claim, runs)
    bn, ln = (np.array([run.records[-1]["error"] for run in runs[first::2]]) for first in (0, 1))
    offset = np.linspace(-1, 1, 20)
    asked = []

    def found(width: float, runs: list[RunRecord] = runs) -> dict[str, Any]:
        def examples(part: Part, control: str, seeds: Sequence[int]) -> Any:
            asked.append((control, list(seeds)))
            return spread((ln - bn)[:, None] + width * offset[None, :])

        return only(claim, runs, examples=examples)

    narrow, wide = found(0.1), found(10.0)
    assert [told["verdict"] for told in (narrow, wide, plain)] == ["reproduced", "undecided", "reproduced"]
    assert [told["parts"][0]["examples"] for told in (narrow, wide, plain)] == [20, 20, 0]
    assert narrow["effect"] == wide["effect"] == plain["effect"] and asked[0] == ("", list(range(1, 11)))
    assert "n = 10 seeds × 20 test examples" in narrow["evidence"] and "n = 10" in plain["evidence"]
    assert wide["evidence"].endswith("(80 % power)"), "more seeds make their part no smaller"
    lost = replace(runs[0], status="diverged", records=runs[0].records[:1])
    assert found(0.1, [lost, *runs[1:]])["parts"][0]["examples"] == 0, "one seed has no number"


def test_only_seeds_of_every_cell_count() -> None:
    runs = arms(-1.0, n=7)
    runs = [run for run in runs if not (run.arm == "ln" and run.seed == 2)]
    claim = only(artifact(direction()), runs)
    assert claim["n"] == 6 and not any("-2-" in run for run in claim["runs"])
    disjoint = [replace(run, seed=run.seed + 100 * (run.arm == "ln")) for run in runs]
    assert only(artifact(direction()), disjoint)["verdict"] == "undecided"
    assert "no seed" in only(artifact(direction()), disjoint)["evidence"]


def test_missing_runs_are_named() -> None:
    cell = {"arm": "ln", "train.batch_size": 4}
    claim = artifact(direction(contrast=((1.0, cell), (-1.0, BN))))
    found = only(claim, arms(-1.0, axes={"train.batch_size": 128}))
    assert (found["verdict"], found["evidence"]) == ("not run", "no runs: arm ln at train.batch_size 4")
    assert only(claim, [])["evidence"] == "no runs: arm ln at train.batch_size 4; arm bn"


def test_a_number_that_was_not_logged_is_not_decidable_here() -> None:
    runs = [*arms(-1.0)[1:], final_run("bn", 1, None)]
    found = only(artifact(direction()), runs)
    assert found["verdict"] == "not decidable here" and "bn-1" in found["evidence"]
    assert verdict(artifact(direction(TIME)), runs) == "not decidable here"
    claims = artifact(direction(), not_decidable={"reduced": "needs 40 000 images"})
    stated = only(claims, [replace(run, fidelity="reduced") for run in arms(-1.0)], "reduced")
    assert (stated["verdict"], stated["evidence"]) == ("not decidable here", "needs 40 000 images")
    assert only(claims, arms(-1.0))["setting"] == only(artifact(direction()), arms(-1.0))["setting"] == "holds"


def test_scales_and_four_cells() -> None:
    cells = [{"arm": arm, "b": b} for arm in ("ln", "bn") for b in (4, 128)]
    contrast = tuple(zip((1.0, -1.0, -1.0, 1.0), cells, strict=True))
    values = {("ln", 4): 0.04, ("ln", 128): 0.02, ("bn", 4): 0.16, ("bn", 128): 0.04}
    runs = [final_run(arm, s, v, axes={"b": b}) for (arm, b), v in values.items() for s in range(5)]
    for scale, effect in (("linear", -0.1), ("percent", -10.0), ("log", -0.693147)):
        assert only(artifact(direction(contrast=contrast, scale=scale)), runs)["effect"] == pytest.approx(effect)
    halves = contrast[0], (-0.5, cells[1]), (-0.5, cells[2])
    assert only(artifact(direction(contrast=halves)), runs)["effect"] == pytest.approx(0.04 - 0.01 - 0.08)
    zero = [final_run(arm, s, v, "nll") for s in range(5) for arm, v in (("ln", 0.0), ("bn", 1e-12))]
    assert only(artifact(direction(NLL, scale="log")), zero)["effect"] == 0.0


def test_a_tie_up_to_rounding_is_no_effect() -> None:
    cells = [{"arm": "ln", "b": b} for b in (1, 2, 3, 4)]
    contrast = tuple(zip((1.0, 1.0, -1.0, -1.0), cells, strict=True))
    runs = [final_run("ln", s, v, axes={"b": b}) for s in range(5) for b, v in ((1, 0.1), (2, 0.2), (3, 0.3), (4, 0.0))]
    assert 0.1 + 0.2 - 0.3 != 0
    found = only(artifact(direction(contrast=contrast)), runs)
    assert (found["verdict"], found["effect"]) == ("undecided", 0)


# several parts


def test_all_parts_must_hold_and_one_refutes() -> None:
    runs = [*arms(-1.0), *arms(-1.0, metric="accuracy", control="unused")]
    both = lambda effect: [  # noqa: E731
        replace(
            run,
            records=[
                *run.records,
                {"epoch": 3, "step": 30, "split": "train", "mode": "eval", "nll": nll.records[1]["nll"]},
            ],
        )
        for run, nll in zip(arms(-1.0), arms(effect, metric="nll"), strict=True)
    ]
    claim = artifact(direction(name="a"), direction(NLL, name="b"))
    assert verdict(claim, both(-1.0)) == "reproduced"
    assert only(claim, both(0.05))["evidence"].startswith("1 of 2 parts hold; b: points 0.03 [")
    assert verdict(claim, both(0.05)) == "undecided"
    refuted = only(claim, both(1.0))
    assert refuted["verdict"] == "contradicted" and refuted["effect"] > 0
    assert verdict(claim, runs) == "not decidable here"  # the second number is not logged


def test_the_first_of_several_deciding_parts_is_shown() -> None:
    cells = [{"arm": "ln", "b": 4}, {"arm": "bn", "b": 4}]
    claim = artifact(direction(name="a"), direction(name="b", contrast=tuple(zip((1.0, -1.0), cells, strict=True))))
    claim = replace(claim, claims=tuple(replace(c, parts=(at_128(c.parts[0]), c.parts[1])) for c in claim.claims))
    first = only(claim, [*arms(1.0, axes={"b": 128}), *arms(2.0, axes={"b": 4})])
    assert first["verdict"] == "contradicted" and first["effect"] == pytest.approx(1.0, abs=0.1)
    second = only(claim, [*arms(-1.0, axes={"b": 128}), *arms(2.0, axes={"b": 4})])
    assert second["effect"] == pytest.approx(2.0, abs=0.1) and second["evidence"].startswith("1 of 2 parts hold; b: ")
    third = only(
        claim, [*arms(0.34, axes={"b": 128}), *arms(2.0, axes={"b": 4})]
    )  # p = 0.03 is no evidence of one of two
    assert third["parts"][0]["word"] == "opposite" and third["evidence"].startswith("0 of 2 parts hold; b: ")
    undecided = [*arms(0.0, axes={"b": 128}), *arms(0.1, axes={"b": 4})]
    assert only(claim, undecided)["evidence"].startswith("0 of 2 parts hold; a: ")


def at_128(part: Part) -> Part:
    return replace(part, contrast=tuple((weight, {**cell, "b": 128}) for weight, cell in part.contrast))


@pytest.mark.parametrize(
    ("part", "runs"),
    [
        (direction(), arms(0.34)),  # p = 0.03
        (direction(kind="equivalence", within=0.01, expect=None), arms(0.34)),
        (direction(kind="size", paper=-0.35, band=9.0, expect=None), arms(0.34, spread=0.9)),
        (
            direction(TIME, test="sign"),
            [*(timed_run("ln", s, None) for s in range(6)), *(timed_run("bn", s, 3) for s in range(6))],
        ),
    ],
)
def test_one_of_several_parts_refutes_at_a_level_that_counts_them(part: Part, runs: list[RunRecord]) -> None:
    """Any of k parts may refute the claim: each at 5 %, a true one of 16 parts would be refuted half of the time."""
    kind = part.kind
    assert verdict(artifact(part, kind=kind), runs) == "contradicted"
    found = only(artifact(*(replace(part, id=str(i)) for i in range(8)), kind=kind), runs)
    assert found["verdict"] == "undecided" and found["parts"][0]["word"] == "opposite"
    assert found["evidence"].endswith("; opposite, but not at the level that one of 8 parts is asked for")
    assert found["parts"][0]["level"] == 0.95


def test_reported_parts_never_decide_and_one_may_stand_beside() -> None:
    claim = artifact(direction(), reported=(direction(expect="positive", name="r"),))
    found = only(claim, arms(-1.0))
    assert found["verdict"] == "reproduced" and found["reported"][0]["word"] == "opposite"
    beside = replace(claim, claims=(replace(claim.claims[0], beside=("r",)),))
    assert only(beside, arms(-1.0))["evidence"].endswith("; beside it, r: points −1.02 [−1.32, −0.724] (opposite)")


# fidelity


@pytest.mark.parametrize("fidelity", ["reduced", "proxy", "smoke"])
def test_below_paper_fidelity_the_words_are_weaker(fidelity: str) -> None:
    claim, opened = artifact(direction()), artifact(direction(), open=["learning rate"])
    for effect, word in ((-1.0, "holds"), (1.0, "opposite"), (0.0, "undecided")):
        assert verdict(claim, arms(effect, fidelity=fidelity), fidelity) == f"{word} ({fidelity})"
    assert verdict(opened, arms(-1.0, fidelity=fidelity), fidelity) == f"holds ({fidelity}); controls not run"
    assert verdict(claim, [], fidelity) == "not run"
    assert judge(claim, [], fidelity)["deviations"][0] == "d"


def test_a_cell_that_mixes_settings_is_refused() -> None:
    runs = [*arms(-1.0, axes={"b": 4}), *arms(-1.0, axes={"b": 128})]
    with pytest.raises(NormbenchError, match="two runs of seed 1"):
        judge(artifact(direction()), runs, "paper")


# added seeds, hashes, previous verdicts


def test_a_second_look_that_was_not_planned_needs_more() -> None:
    claim, runs = artifact(direction(), added=(5, 8)), arms(-0.235, n=8)
    once = only(artifact(direction()), runs, planned=Plan(8))
    twice = only(claim, runs, planned=Plan(8))
    assert (once["verdict"], twice["verdict"]) == ("reproduced", "undecided")
    assert (twice["level"], twice["look"], twice["looks"], once["looks"]) == (0.975, 2, [5, 8], [8])
    first, none = (only(claim, arms(-0.235, n=n), planned=Plan(8)) for n in (7, 4))
    assert (first["level"], first["look"], first["n"]) == (0.95, 1, 5), "what follows the first look waits"
    assert (none["level"], none["look"], none["n"]) == (0.95, 0, 4)
    equal = artifact(direction(kind="equivalence", within=1.0, expect=None), kind="equivalence", added=(5, 8))
    assert verdict(equal, runs[:10], planned=Plan(8)) == "reproduced"
    for plan, late in ((Plan(8, delta=1.0), claim), (Plan(8), equal)):
        found = only(late, runs, planned=plan)
        assert found["verdict"] == "undecided" and "inside, but this second look was not planned" in found["evidence"]


def test_changed_claims_without_an_amendment_are_noted_until_amended() -> None:
    claim = artifact(direction())
    first = judge(claim, arms(-1.0), "paper")
    assert first["note"] == "" and judge(claim, arms(-1.0), "paper", first)["note"] == ""
    changed = replace(claim, claims_sha256="b" * 64)
    second = judge(changed, arms(-1.0), "paper", first)
    assert second["note"] == "claims changed without an amendment"
    assert judge(changed, arms(-1.0), "paper", second)["note"] == second["note"]
    amended = replace(changed, amendments=({"claim": "C1", "change": "x", "reason": "y"},))
    third = judge(amended, arms(-1.0), "paper", second)
    assert third["note"] == "" and third["claims"][0]["amendments"] == [dict(amended.amendments[0])]
    again = replace(amended, claims_sha256="c" * 64)
    assert judge(again, arms(-1.0), "paper", third)["note"] != ""


def test_expected_wrong_sums_the_levels_that_claims_have_spent() -> None:
    one = artifact(direction())
    ids = ("a", "b", "c")
    many = replace(one, claims=tuple(replace(one.claims[0], id=name) for name in ids))
    assert judge(many, arms(-1.0), "paper")["expected_wrong"] == 0.15
    assert judge(many, arms(1.0, fidelity="smoke"), "smoke")["expected_wrong"] == 0.15
    assert judge(many, arms(0.0), "paper")["expected_wrong"] == 0.15, "an undecided one could have been wrong"
    added = replace(many, claims=tuple(replace(claim, added=(5, 10)) for claim in many.claims))
    assert judge(added, arms(-1.0), "paper")["expected_wrong"] == 0.15
    assert judge(added, arms(-1.0, n=10), "paper")["expected_wrong"] == 0.225, "both looks"
    assert judge(many, arms(-1.0, n=4), "paper")["expected_wrong"] == 0, "no look yet"
    assert judge(many, [], "paper")["expected_wrong"] == 0
    undecidable = artifact(direction(), direction(name="q"), not_decidable={"paper": "too short"})
    assert judge(undecidable, arms(-1.0), "paper")["expected_wrong"] == 0


# properties

_values = st.lists(st.floats(0.01, 10.0), min_size=4, max_size=8)


@settings(deadline=None)  # the first example imports scipy
@given(_values, _values, st.randoms(use_true_random=False), st.booleans())
def test_the_order_of_runs_never_matters(
    ln: list[float], bn: list[float], shuffler: random.Random, censored: bool
) -> None:
    endpoint = TIME if censored else ERROR
    build = (lambda a, s, v: timed_run(a, s, int(v), epochs=7)) if censored else final_run
    runs = [build("ln", seed, value) for seed, value in enumerate(ln)]
    runs += [build("bn", seed, value) for seed, value in enumerate(bn)]
    claim = artifact(direction(endpoint, scale="log", test="sign" if censored else "t"))
    expected = json.dumps(judge(claim, runs, "paper"))
    shuffler.shuffle(runs)
    assert json.dumps(judge(claim, runs, "paper")) == expected


@settings(deadline=None)
@given(_values, _values, st.booleans())
def test_flipping_the_signs_flips_holds_and_opposite(ln: list[float], bn: list[float], censored: bool) -> None:
    endpoint = TIME if censored else ERROR
    build = (lambda a, s, v: timed_run(a, s, int(v), epochs=7)) if censored else final_run
    pairs = [("ln", *pair) for pair in enumerate(ln)] + [("bn", *pair) for pair in enumerate(bn)]
    runs = [build(*pair) for pair in pairs]
    swapped = [build("bn" if arm == "ln" else "ln", seed, value) for arm, seed, value in pairs]
    part = direction(endpoint, test="sign" if censored else "t")
    word = only(artifact(part), runs)["parts"][0]["word"]
    flip = {"holds": "opposite", "opposite": "holds", "undecided": "undecided"}
    weights = ((-1.0, LN), (1.0, BN))
    assert only(artifact(part), swapped)["parts"][0]["word"] == flip[word]
    assert only(artifact(replace(part, contrast=weights)), runs)["parts"][0]["word"] == flip[word]
    assert only(artifact(replace(part, expect="positive")), runs)["parts"][0]["word"] == flip[word]


def test_copies_of_the_data_are_among_the_deviations() -> None:
    line, other = "CIFAR-10: 3 of the 90 images are approximate (2 train, 1 test)", "CIFAR-10: another order"
    official, copy = ({"data": {"sha256": "0", "deviations": lines}} for lines in ([], [line]))
    resumed = {**official, "resumed": [{"step": 3, "changed": copy | {"data": {"deviations": [line, other]}}}, {}]}

    def deviations(*environments: Mapping[str, Any]) -> list[str]:
        runs = [replace(final_run("ln", seed, 0.1), environment=e) for seed, e in enumerate(environments)]
        return judge(artifact(direction()), runs, "paper")["deviations"]

    assert deviations({}, official) == ["d"]
    assert deviations(copy, copy) == ["d", line]
    assert deviations(copy, official, resumed, {}) == ["d", f"{line}, in 2 of 4 runs", f"{other}, in 1 of 4 runs"]
