"""Parts of every kind on synthetic runs: sizes, equivalence, exact numbers; runs that diverged or met no level."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from judged import ACCURACY, ERROR, JITTER, LN, TIME, arms, artifact, direction, final_run, only, timed_run, verdict

from normbench.papers.claims import Artifact, Endpoint, Part
from normbench.papers.verdicts import judge
from normbench.runs.record import RunRecord

# size, equivalence, order, exact


@pytest.mark.parametrize(
    ("paper", "expected"),
    [(-1.0, "reproduced"), (-1.7, "reproduced"), (-2.0, "weaker than claimed"), (-0.1, "reproduced")],
)
def test_size_against_the_prediction_interval(paper: float, expected: str) -> None:
    claim = artifact(direction(kind="size", paper=paper), kind="size")
    found = only(claim, arms(-1.0))  # interval [−1.32, −0.72], prediction interval [−1.75, −0.29]
    assert found["verdict"] == expected
    assert ("stronger" in found["evidence"]) == (paper == -0.1)
    assert verdict(claim, arms(1.0)) == "contradicted"
    assert verdict(claim, arms(0.0)) == "inconclusive"
    mirrored = artifact(direction(kind="size", paper=-paper, expect="positive"), kind="size")
    assert verdict(mirrored, arms(1.04)) == expected


def test_weaker_than_claimed_is_no_word_below_paper_fidelity() -> None:
    claim = artifact(direction(kind="size", paper=-2.0), kind="size")
    assert verdict(claim, arms(-1.0, fidelity="smoke"), "smoke") == "inconclusive"


def test_a_plain_number_is_plausible_or_not() -> None:
    single = direction(kind="size", contrast=((1.0, LN),), paper=11.0)
    values = [final_run("ln", seed, 11.0 + JITTER[seed]) for seed in range(5)]
    for paper, expected in ((11.3, "reproduced"), (14.0, "contradicted"), (8.0, "contradicted")):
        assert verdict(artifact(replace(single, expect=None, paper=paper), kind="size"), values) == expected


@pytest.mark.parametrize(
    ("effect", "within", "expected"),
    [
        (0.0, 0.5, "reproduced"),
        (0.0, 0.2, "inconclusive"),
        (0.5, 0.5, "inconclusive"),
        (-0.5, 0.5, "inconclusive"),
        (1.0, 0.5, "contradicted"),
        (-1.0, 0.5, "contradicted"),
    ],
)
def test_equivalence(effect: float, within: float, expected: str) -> None:
    claim = artifact(direction(kind="equivalence", expect=None, within=within), kind="equivalence")
    found = only(claim, arms(effect))
    assert found["verdict"] == expected and "90 % interval" in found["evidence"]
    assert ("80 % power" in found["evidence"]) == (expected == "inconclusive")
    assert verdict(claim, [*arms(effect)[2:], *arms(effect, status="diverged")[:2]]) == "inconclusive"


def exact(**more: Any) -> Artifact:
    part = Part("e", "exact", Endpoint("value", key="gap"), ((1.0, {}),), "linear", "relative", **more)
    return artifact(part, kind="exact")


def probe(value: Any, name: str = "probe") -> RunRecord:
    return RunRecord(name, "x/fig", name, 0, "done", 0, records=[{"gap": value}])


@pytest.mark.parametrize(
    ("bounds", "value", "expected"),
    [
        ({"at_most": 1e-9}, 1e-12, "reproduced"),
        ({"at_most": 1e-9}, 1e-3, "contradicted"),
        ({"at_most": 1e-9}, "NaN", "contradicted"),
        ({"at_least": 1e-3}, 0.1, "reproduced"),
        ({"at_least": 1e-3, "at_most": 1.0}, 2.0, "contradicted"),
        ({"value": 1}, True, "reproduced"),
        ({"value": 1}, 1.5, "contradicted"),
    ],
)
def test_exact_needs_no_seeds(bounds: Mapping[str, float], value: Any, expected: str) -> None:
    content = judge(exact(**bounds), [probe(value)], "paper")
    assert content["claims"][0]["verdict"] == expected
    assert content["expected_wrong"] == 0 and content["claims"][0]["level"] is None


def test_exact_without_its_number_and_with_several_runs() -> None:
    claim = exact(at_most=1)
    assert verdict(claim, []) == "not run"
    assert verdict(claim, [replace(probe(0), records=[{"other": 1}])]) == "not decidable here"
    assert verdict(claim, [replace(probe(0), records=[{"gap": 1}, {"gap": 2}])]) == "not decidable here"
    assert verdict(claim, [probe(0, "a"), probe(2, "b")]) == "contradicted"


# divergence and censoring


def test_censored_times_are_decided_by_order_only() -> None:
    claim = artifact(direction(TIME, scale="log"))
    reached = [timed_run("ln", seed, 3) for seed in range(6)]
    slow = [timed_run("bn", seed, None if seed % 2 else 6) for seed in range(6)]
    found = only(claim, reached + slow)
    assert (found["verdict"], found["effect"], found["interval"]) == ("reproduced", None, None)
    (part,) = found["parts"]
    assert (part["censored"], part["diverged"]) == (3, 0)
    assert part["sign_test"] == {"above": 0, "below": 6, "p": 0.03125}
    assert part["cells"][1]["values"] == ["6", "≥ 8", "6", "≥ 8", "6", "≥ 8"]
    assert "3 censored (≥ 8)" in found["evidence"]
    assert verdict(artifact(direction(TIME, "positive", scale="log")), reached + slow) == "contradicted"


def test_five_pairs_cannot_be_decided_by_order() -> None:
    runs = [timed_run("ln", seed, 3) for seed in range(5)] + [timed_run("bn", seed, None) for seed in range(5)]
    found = only(artifact(direction(TIME, scale="log")), runs)
    assert found["verdict"] == "inconclusive" and found["evidence"].endswith("order alone needs 6 pairs or more")


def test_times_that_are_all_reached_get_an_interval() -> None:
    runs = [timed_run("ln", s, 2) for s in range(5)] + [timed_run("bn", s, 4) for s in range(5)]
    found = only(artifact(direction(TIME, scale="log", unit="log ratio")), runs)
    assert found["verdict"] == "reproduced" and found["effect"] == pytest.approx(-0.693147)


def test_a_run_that_diverged_after_it_reached_the_level_counts_and_is_shown() -> None:
    runs = [timed_run("ln", s, 2) for s in range(5)] + [timed_run("bn", s, 4) for s in range(5)]
    runs[0] = replace(runs[0], status="diverged")
    found = only(artifact(direction(TIME, scale="log")), runs)
    assert (found["verdict"], found["parts"][0]["diverged"]) == ("reproduced", 1)
    assert found["evidence"].endswith("n = 5, 1 diverged afterwards")


def test_pairs_without_known_order_do_not_count() -> None:
    def p_value(ln: RunRecord, bn: RunRecord) -> Mapping[str, float]:
        others = [timed_run("ln", s, 3) for s in range(5)] + [timed_run("bn", s, None) for s in range(5)]
        test = only(artifact(direction(TIME, scale="log")), [*others, ln, bn])["parts"][0]["sign_test"]
        return {key: test[key] for key in ("above", "below")}

    assert p_value(timed_run("ln", 9, None), timed_run("bn", 9, None)) == {"above": 0, "below": 5}
    assert p_value(timed_run("ln", 9, 4), timed_run("bn", 9, 4)) == {"above": 0, "below": 5}
    assert p_value(timed_run("ln", 9, None), timed_run("bn", 9, 4)) == {"above": 1, "below": 5}
    # bn had only three epochs, so ln's six say nothing; a diverged bn on the other hand never gets there
    assert p_value(timed_run("ln", 9, 6), timed_run("bn", 9, None, epochs=3)) == {"above": 0, "below": 5}
    assert p_value(timed_run("ln", 9, 6), timed_run("bn", 9, None, status="diverged")) == {"above": 0, "below": 6}


def test_a_level_met_before_training_has_no_log_ratio() -> None:
    runs = [timed_run("ln", s, 0) for s in range(6)] + [timed_run("bn", s, 4) for s in range(6)]
    found = only(artifact(direction(TIME, scale="log")), runs)
    assert found["effect"] is None and found["parts"][0]["sign_test"]["below"] == 6
    assert "level met before training in 12 runs" in found["evidence"]


@pytest.mark.parametrize(("endpoint", "expect"), [(ERROR, "negative"), (ACCURACY, "positive")])
def test_a_diverged_run_is_worst(endpoint: Endpoint, expect: str) -> None:
    better = -1.0 if expect == "negative" else 1.0
    runs = arms(better, n=6, metric=endpoint.metric)
    runs[0] = replace(runs[0], status="diverged", records=runs[0].records[:1])  # bn, seed 0
    found = only(artifact(direction(endpoint, expect)), runs)
    assert (found["verdict"], found["parts"][0]["diverged"], found["effect"]) == ("reproduced", 1, None)
    assert found["parts"][0]["cells"][1]["values"][0] == "diverged"
    runs[1] = replace(runs[1], status="diverged", records=runs[1].records[:1])  # now ln, seed 0 as well
    assert verdict(artifact(direction(endpoint, expect)), runs) == "inconclusive"


def test_a_final_value_that_is_not_finite_counts_as_diverged() -> None:
    runs = [*arms(-1.0)[2:], final_run("bn", 0, "Infinity"), final_run("ln", 0, 1.0)]
    assert only(artifact(direction()), runs)["parts"][0]["diverged"] == 1


def test_lost_runs_in_more_than_two_cells_leave_the_part_open() -> None:
    cells = [{"arm": arm} for arm in ("a", "b", "c", "d")]
    contrast = tuple(zip((1.0, -1.0, -1.0, 1.0), cells, strict=True))
    runs = [final_run(arm, s, float(ord(arm) ** 2)) for s in range(12) for arm in "abcd"]
    claim = artifact(direction(contrast=contrast, expect="positive"))
    assert verdict(claim, runs) == "reproduced"
    runs[0] = replace(runs[0], status="diverged")
    found = only(claim, runs)
    assert found["verdict"] == "inconclusive" and "two cells" in found["evidence"]
    for weight in (1.0, -0.5):  # a sum, or unequal weights: the order of the two says nothing about its sign
        pair = ((1.0, {"arm": "a"}), (weight, {"arm": "b"}))
        assert verdict(artifact(direction(contrast=pair, expect="positive")), runs) == "inconclusive"


def test_order_alone_cannot_confirm_a_size_but_can_refute_it() -> None:
    claim = artifact(direction(TIME, kind="size", scale="log", paper=-0.7), kind="size")
    fast, never = [timed_run("ln", s, 3) for s in range(6)], [timed_run("bn", s, None) for s in range(6)]
    assert verdict(claim, fast + never) == "inconclusive"
    swap = {"ln": "bn", "bn": "ln"}
    assert verdict(claim, [replace(run, arm=swap[run.arm]) for run in fast + never]) == "contradicted"
