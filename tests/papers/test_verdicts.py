"""Verdicts on synthetic runs: true, false, tied, missing, few, looked at twice, in several parts and settings."""

import json
import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judged import (
    BN,
    ERROR,
    LN,
    NLL,
    TIME,
    arms,
    artifact,
    direction,
    final_run,
    only,
    timed_run,
    verdict,
)

from normbench.errors import NormbenchError
from normbench.papers.claims import Endpoint, Part
from normbench.papers.verdicts import judge
from normbench.runs.record import RunRecord

# direction


def test_a_true_a_false_and_an_undecided_direction() -> None:
    claim = artifact(direction())
    assert verdict(claim, arms(-1.0)) == "reproduced"
    assert verdict(claim, arms(+1.0)) == "contradicted"
    assert verdict(claim, arms(-0.1)) == "inconclusive"
    assert verdict(claim, arms(0.0, spread=0.0)) == "inconclusive"
    assert verdict(claim, arms(-1.0, spread=0.0)) == "reproduced"


def test_the_fields_of_a_verdict() -> None:
    content = judge(artifact(direction()), arms(-1.0), "paper")
    assert list(content) == [
        *("schema", "artifact", "fidelity", "command", "deviations", "claims_sha256", "amendments", "note"),
        *("expected_wrong", "claims"),
    ]
    assert content["command"] == "normbench reproduce x/fig --fidelity paper" and content["deviations"] == ["d"]
    (claim,) = content["claims"]
    assert (claim["n"], claim["level"], claim["looks"], claim["unit"]) == (5, 0.95, 1, "points")
    assert claim["effect"] == pytest.approx(-1.02)
    sd = 0.23874673
    assert claim["interval"] == pytest.approx(
        [-1.02 - 2.776445 * sd / 5**0.5, -1.02 + 2.776445 * sd / 5**0.5], rel=1e-5
    )
    assert claim["detectable"] == pytest.approx(1.682 * sd, rel=1e-3)
    assert len(claim["runs"]) == 10 and claim["runs"] == sorted(claim["runs"])
    measured = "final test error (evaluation mode), points −1.02 [−1.32, −0.724]"
    assert claim["evidence"] == f"{measured}, n = 5 (pairing r = 0.99)"
    (part,) = claim["parts"]
    assert part["outcome"] == "holds" and part["correlation"] > 0.9 and part["seeds"] == [0, 1, 2, 3, 4]
    assert part["prediction"][0] < claim["interval"][0]


def test_an_inconclusive_one_says_what_was_seen_and_what_would_decide() -> None:
    claim = only(artifact(direction()), arms(-0.1))
    assert claim["evidence"] == (
        "final test error (evaluation mode): seen −0.12 points [−0.416, 0.176]; "
        "n = 5 shows 0.402 with 80 % power; about 34 seeds would show the effect seen"
    )
    assert "not even 1000 seeds" in only(artifact(direction()), arms(0.021, spread=1.0))["evidence"]


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_no_word_below_five_seeds(n: int) -> None:
    for effect in (-5.0, 5.0):
        claim = only(artifact(direction()), arms(effect, n=n, spread=0.01))
        assert claim["verdict"] == "inconclusive" and claim["n"] == n
        assert f"n = {n}" in claim["evidence"] and "; no verdict below n = 5" in claim["evidence"]
        assert ("80 % power" in claim["evidence"]) == (n > 1)
        assert (claim["interval"] is None) == (n == 1)


def test_seeds_that_were_seen_before_an_amendment_decide_nothing() -> None:
    """Fresh and old seeds pooled would be reproduced here: of ten, five are far below zero."""
    seen, fresh = arms(-9.0), [replace(run, seed=run.seed + 6) for run in arms(0.1)]
    claim = artifact(direction(), seeds=5)
    alone = replace(claim, claims=(replace(claim.claims[0], seeds=range(6, 11)),))
    assert only(claim, [*seen, *fresh])["verdict"] == "reproduced"
    judged = only(alone, [*seen, *fresh])
    assert (judged["verdict"], judged["n"]) == ("inconclusive", 5)
    assert judged["parts"][0]["seeds"] == [6, 7, 8, 9, 10] and judged["evidence"].endswith(
        "judged on seeds 6 to 10 alone"
    )
    assert only(alone, seen)["verdict"] == "not run"
    smoke = [replace(run, fidelity="smoke") for run in seen]
    assert only(alone, smoke, "smoke")["verdict"] == "consistent (smoke)", "below paper all seeds count"


def test_nothing_is_decided_before_the_planned_n() -> None:
    """The n of a claim of ten seeds is ten: who looks at five, six, ... finds some effect at one of them."""
    claim, planned = artifact(direction(), seeds=10), lambda part, control, seeds: 10
    early = only(claim, arms(-1.0, n=9), planned=planned)
    assert early["verdict"] == "inconclusive" and early["evidence"].endswith("no verdict before the planned n = 10")
    assert verdict(claim, arms(-1.0, n=10), planned=planned) == "reproduced"
    assert only(claim, arms(-1.0, n=4), planned=planned)["evidence"].count("no verdict") == 1
    opened = artifact(direction(), open=["rate"], seeds=10)
    runs = [*arms(1.0, n=10), *arms(1.0, n=5, control="lr-low"), *arms(1.0, n=5, control="lr-high")]
    assert verdict(opened, runs, planned=lambda part, control, seeds: 5 if control else 10) == "contradicted"
    assert verdict(opened, runs, planned=planned) == "inconclusive"


def test_blocks_of_test_examples_widen_the_interval() -> None:
    """Ten seeds on one test set: which examples it has is drawn too, and no seed draws it again."""
    chosen = Endpoint("chosen", split="test", mode="eval", metric="error", epoch="best")

    def runs(spread: float, blocks: int = 10) -> list[RunRecord]:
        made = []
        for run in arms(-1.0, n=10):
            value = run.records[-1]["error"]
            sign = 1 if run.arm == "ln" else 0
            place = {"epoch": 3, "step": 30, "split": "test", "mode": "eval"}
            parts = [value + sign * spread * (k - (blocks - 1) / 2) for k in range(blocks)]
            records = [{**place, "split": "valid", "nll": 1.0}, {**place, "error": value}]
            records += [{**place, "block": k, "error": part} for k, part in enumerate(parts, 1)]
            made.append(replace(run, records=records))
        return made

    claim = artifact(direction(chosen))
    narrow, wide, plain = (only(claim, runs(*words)) for words in ((0.1,), (1.0,), (1.0, 0)))
    assert (narrow["verdict"], wide["verdict"], plain["verdict"]) == ("reproduced", "inconclusive", "reproduced")
    assert [found["parts"][0]["blocks"] for found in (narrow, wide, plain)] == [10, 10, 0]
    assert narrow["effect"] == wide["effect"] == plain["effect"]
    assert "n = 10 seeds, over test examples too (pairing" in narrow["evidence"]
    assert wide["evidence"].endswith("with 80 % power; over test examples too")
    assert "n = 10 (pairing" in plain["evidence"]
    partly = [replace(run, records=run.records[:2]) if run.seed == 3 else run for run in runs(1.0)]
    assert only(claim, partly)["parts"][0]["blocks"] == 0, "some have none"
    in_logs = artifact(direction(chosen, scale="log"))
    assert only(in_logs, runs(1.0))["parts"][0]["blocks"] == 0, "the mean of logarithms is not their whole"


def test_only_seeds_of_every_cell_count() -> None:
    runs = arms(-1.0, n=7)
    runs = [run for run in runs if not (run.arm == "ln" and run.seed == 2)]
    claim = only(artifact(direction()), runs)
    assert claim["n"] == 6 and not any("-2-" in run for run in claim["runs"])
    disjoint = [replace(run, seed=run.seed + 100 * (run.arm == "ln")) for run in runs]
    assert only(artifact(direction()), disjoint)["verdict"] == "inconclusive"
    assert "no seed" in only(artifact(direction()), disjoint)["evidence"]


def test_missing_runs_are_named() -> None:
    cell = {"arm": "ln", "train.batch_size": 4}
    claim = artifact(direction(contrast=((1.0, cell), (-1.0, BN))))
    found = only(claim, arms(-1.0, axes={"train.batch_size": 128}))
    assert (found["verdict"], found["evidence"]) == ("not run", "no runs: arm ln at train.batch_size 4")
    assert only(claim, [])["evidence"] == "no runs: arm ln at train.batch_size 4; arm bn"


def test_a_number_that_was_not_logged_is_not_decidable_here() -> None:
    runs = [*arms(-1.0)[1:], final_run("bn", 0, None)]
    found = only(artifact(direction()), runs)
    assert found["verdict"] == "not decidable here" and "bn-0" in found["evidence"]
    assert verdict(artifact(direction(TIME)), runs) == "not decidable here"
    stated = only(artifact(direction(), not_decidable="needs 40 000 images"), arms(-1.0))
    assert (stated["verdict"], stated["evidence"]) == ("not decidable here", "needs 40 000 images")


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
    assert verdict(artifact(direction(contrast=contrast)), runs) == "inconclusive"


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
    assert only(claim, both(0.05))["evidence"].startswith("1 of 2 parts hold; b: seen 0.03")
    assert verdict(claim, both(0.05)) == "inconclusive"
    refuted = only(claim, both(1.0))
    assert refuted["verdict"] == "contradicted" and refuted["effect"] > 0
    assert verdict(claim, runs) == "not decidable here"  # the second number is not logged


def test_the_first_of_several_deciding_parts_is_shown_and_the_largest_n_counts_the_looks() -> None:
    cells = [{"arm": "ln", "b": 4}, {"arm": "bn", "b": 4}]
    claim = artifact(direction(name="a"), direction(name="b", contrast=tuple(zip((1.0, -1.0), cells, strict=True))))

    def runs(n: int) -> list[RunRecord]:
        return [*arms(1.0, n=5, axes={"b": 128}), *arms(2.0, n=n, axes={"b": 4})]

    claim = replace(claim, claims=tuple(replace(c, parts=(at_128(c.parts[0]), c.parts[1])) for c in claim.claims))
    first = judge(claim, runs(5), "paper")
    assert first["claims"][0]["effect"] == pytest.approx(1.0, abs=0.1)
    assert only(claim, runs(7), previous=first)["looks"] == 2
    undecided = [*arms(0.0, axes={"b": 128}), *arms(0.1, axes={"b": 4})]
    assert only(claim, undecided)["evidence"].startswith("0 of 2 parts hold; a: ")


def at_128(part: Part) -> Part:
    return replace(part, contrast=tuple((weight, {**cell, "b": 128}) for weight, cell in part.contrast))


@pytest.mark.parametrize(
    ("part", "runs"),
    [
        (direction(), arms(0.34)),  # p = 0.03
        (direction(kind="equivalence", within=0.01, expect=None), arms(0.34)),
        (direction(kind="size", paper=-0.35, expect=None), arms(0.34, spread=0.9)),
        (direction(TIME), [*(timed_run("ln", s, None) for s in range(6)), *(timed_run("bn", s, 3) for s in range(6))]),
    ],
)
def test_one_of_several_parts_refutes_at_a_level_that_counts_them(part: Part, runs: list[RunRecord]) -> None:
    """Any of k parts may refute the claim: each at 5 %, a true one of 16 parts would be refuted half of the time."""
    kind = part.kind
    assert verdict(artifact(part, kind=kind), runs) == "contradicted"
    found = only(artifact(*(replace(part, id=str(i)) for i in range(8)), kind=kind), runs)
    assert found["verdict"] == "inconclusive" and found["parts"][0]["outcome"] == "open"
    end = "on the other side, but not at the 99.4 % that one of several parts needs to refute the claim"
    assert found["evidence"].endswith(end)
    assert (found["parts"][0]["level"], found["parts"][0]["refuting"]) == (0.95, 0.99375)


def test_reported_parts_never_decide() -> None:
    claim = artifact(direction(), reported=(direction(expect="positive", name="r"),))
    found = only(claim, arms(-1.0))
    assert found["verdict"] == "reproduced" and found["reported"][0]["outcome"] == "fails"


# the choices that the paper leaves open


def test_contradicted_needs_every_control_with_five_seeds() -> None:
    claim = artifact(direction(), open=["learning rate"])
    own = arms(1.0)
    low, high = arms(1.0, control="lr-low"), arms(1.0, control="lr-high")
    found = only(claim, own)
    assert found["verdict"] == "inconclusive"
    assert found["evidence"].endswith(
        "80 % power; on the other side at the one setting tried; contradicted needs the controls lr-low, lr-high"
    )
    assert only(claim, own + low)["evidence"].endswith("needs the controls lr-high")
    assert only(claim, own + low + arms(1.0, n=4, control="lr-high"))["evidence"].endswith("needs the controls lr-high")
    refuted = only(claim, own + low + high)
    assert refuted["verdict"] == "contradicted" and refuted["evidence"].endswith("the same under lr-low, lr-high")
    assert [c["name"] for c in refuted["controls"]] == ["lr-low", "lr-high"]
    spared = only(claim, own + low + arms(-1.0, control="lr-high"))
    assert spared["verdict"] == "inconclusive" and spared["evidence"].endswith("but not under lr-high")
    assert verdict(claim, arms(-1.0)) == "reproduced"  # what holds needs no controls
    assert len(refuted["runs"]) == 10
    closed = artifact(direction(), controls=("lr-low",))  # nothing left open: controls only inform
    assert verdict(closed, own) == "contradicted"


# fidelity


@pytest.mark.parametrize("fidelity", ["reduced", "proxy", "smoke"])
def test_below_paper_fidelity_the_words_are_weaker(fidelity: str) -> None:
    claim = artifact(direction(), open=["learning rate"])
    assert verdict(claim, arms(-1.0, fidelity=fidelity), fidelity) == f"consistent ({fidelity})"
    found = only(claim, arms(1.0, fidelity=fidelity), fidelity)
    assert (
        found["verdict"] == f"inconsistent ({fidelity})" and "without the controls lr-low, lr-high" in found["evidence"]
    )
    assert verdict(claim, arms(0.0, fidelity=fidelity), fidelity) == "inconclusive"
    assert verdict(claim, [], fidelity) == "not run"


def test_fidelities_are_never_mixed() -> None:
    with pytest.raises(NormbenchError, match="fidelity smoke"):
        judge(artifact(direction()), [*arms(-1.0), *arms(-1.0, fidelity="smoke")], "paper")
    with pytest.raises(NormbenchError, match="Did you mean 'smoke'"):
        judge(artifact(direction()), [], "smok")
    assert judge(artifact(direction()), [], "smoke")["deviations"] == ["d", "e"]


def test_a_cell_that_mixes_settings_is_refused() -> None:
    runs = [*arms(-1.0, axes={"b": 4}), *arms(-1.0, axes={"b": 128})]
    with pytest.raises(NormbenchError, match="two runs of seed 0"):
        judge(artifact(direction()), runs, "paper")


# looks, hashes, previous verdicts


def test_looks_grow_only_with_seeds_beyond_the_planned_ones() -> None:
    claim, previous, seen = artifact(direction()), None, []
    for n in (3, 5, 5, 7, 7, 9, 4):
        previous = judge(claim, arms(-1.0, n=n), "paper", previous)
        seen.append((previous["claims"][0]["looks"], previous["claims"][0]["level"]))
    two, three = 0.975, pytest.approx(1 - 0.05 / 3, abs=1e-6)
    assert seen == [(1, 0.95), (1, 0.95), (1, 0.95), (2, two), (2, two), (3, three), (1, 0.95)]
    assert only(claim, arms(-1.0, n=9))["looks"] == 1  # nine at once are one look
    early = judge(claim, arms(-1.0, n=3), "paper")
    assert only(claim, arms(-1.0, n=9), previous=early)["looks"] == 1


def test_a_second_look_needs_more() -> None:
    claim = artifact(direction(), seeds=5)
    runs = arms(-0.235, n=8)
    once = only(claim, runs)
    twice = only(claim, runs, previous=judge(claim, runs[:10], "paper"))
    assert (once["verdict"], twice["verdict"]) == ("reproduced", "inconclusive")


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


@pytest.mark.parametrize(
    "damage",
    [
        {"schema": 1}, {"artifact": "y/fig"}, {"fidelity": "smoke"}, {"claims": None}, {"claims": ["C1"]},
        {"note": None},        {"claims": [{"id": "C1"}]}, {"claims": [{"id": "C1", "looks": "1", "parts": []}]},
        {"claims_sha256": 3},
        {"claims": [{"id": "C1", "looks": 1, "parts": [{"n": None}]}]}, {"amendments": None},
        {"claims": [{"id": "C1", "looks": 1, "parts": [{}]}]}, {"claims": [{"id": [], "looks": 1, "parts": []}]},
    ],
)  # fmt: skip
def test_malformed_previous_verdicts_are_refused(damage: Mapping[str, Any]) -> None:
    claim = artifact(direction())
    previous = {**judge(claim, arms(-1.0), "paper"), **damage}
    with pytest.raises(NormbenchError, match="previous verdicts of x/fig"):
        judge(claim, arms(-1.0), "paper", previous)
    del previous["claims"]
    with pytest.raises(NormbenchError):
        judge(claim, arms(-1.0), "paper", previous)


def test_expected_wrong_counts_decided_statistical_claims() -> None:
    one = artifact(direction())
    ids = ("a", "b", "c")
    many = replace(one, claims=tuple(replace(one.claims[0], id=name) for name in ids))
    assert judge(many, arms(-1.0), "paper")["expected_wrong"] == 0.15
    assert judge(many, arms(1.0, fidelity="smoke"), "smoke")["expected_wrong"] == 0.15
    assert judge(many, arms(0.0), "paper")["expected_wrong"] == 0
    assert judge(many, [], "paper")["expected_wrong"] == 0


# properties

_values = st.lists(st.floats(0.01, 10.0), min_size=4, max_size=7)


@settings(deadline=None)  # the first example imports scipy
@given(_values, _values, st.randoms(use_true_random=False), st.booleans())
def test_the_order_of_runs_never_matters(
    ln: list[float], bn: list[float], shuffler: random.Random, censored: bool
) -> None:
    endpoint = TIME if censored else ERROR
    build = (lambda a, s, v: timed_run(a, s, int(v), epochs=7)) if censored else final_run
    runs = [build("ln", seed, value) for seed, value in enumerate(ln)]
    runs += [build("bn", seed, value) for seed, value in enumerate(bn)]
    claim = artifact(direction(endpoint, scale="log"))
    expected = json.dumps(judge(claim, runs, "paper"))
    shuffler.shuffle(runs)
    assert json.dumps(judge(claim, runs, "paper")) == expected


@settings(deadline=None)
@given(_values, _values, st.booleans())
def test_flipping_the_signs_flips_holds_and_fails(ln: list[float], bn: list[float], censored: bool) -> None:
    endpoint = TIME if censored else ERROR
    build = (lambda a, s, v: timed_run(a, s, int(v), epochs=7)) if censored else final_run
    pairs = [("ln", *pair) for pair in enumerate(ln)] + [("bn", *pair) for pair in enumerate(bn)]
    runs = [build(*pair) for pair in pairs]
    swapped = [build("bn" if arm == "ln" else "ln", seed, value) for arm, seed, value in pairs]
    part = direction(endpoint)
    outcome = only(artifact(part), runs)["parts"][0]["outcome"]
    flip = {"holds": "fails", "fails": "holds", "open": "open"}
    weights = ((-1.0, LN), (1.0, BN))
    assert only(artifact(part), swapped)["parts"][0]["outcome"] == flip[outcome]
    assert only(artifact(replace(part, contrast=weights)), runs)["parts"][0]["outcome"] == flip[outcome]
    assert only(artifact(replace(part, expect="positive")), runs)["parts"][0]["outcome"] == flip[outcome]


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
