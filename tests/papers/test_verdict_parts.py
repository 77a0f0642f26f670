"""Parts of every kind on synthetic runs: sizes, equivalence, exact numbers; runs that diverged or met no level."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from judged import (
    ACCURACY,
    ERROR,
    JITTER,
    LN,
    TIME,
    arms,
    artifact,
    direction,
    final_run,
    judge,
    only,
    timed_run,
    verdict,
)

from normbench.papers.claims import Artifact, Endpoint, Part
from normbench.runs.record import RunRecord

# size, equivalence, order, exact


@pytest.mark.parametrize(
    ("paper", "band", "expected"),
    [
        (-1.0, 1.0, "reproduced"),
        (-1.0, 0.5, "undecided"),  # one more run of ours may lie further from it
        (-1.7, 1.0, "undecided"),
        (-2.0, 9.0, "contradicted"),
        (-0.1, 9.0, "contradicted"),
    ],
)
def test_size_against_the_prediction_interval(paper: float, band: float, expected: str) -> None:
    claim = artifact(direction(kind="size", paper=paper, band=band, expect=None), kind="size")
    found = only(claim, arms(-1.0))  # interval [−1.32, −0.72], prediction interval [−1.75, −0.29]
    assert found["verdict"] == expected and found["parts"][0]["prediction"] == pytest.approx([-1.75, -0.29], abs=0.01)
    assert found["evidence"].endswith(f"± {band:g} against our prediction interval [−1.75, −0.294]")
    mirrored = artifact(direction(kind="size", paper=-paper, band=band, expect=None), kind="size")
    assert verdict(mirrored, arms(1.04)) == expected


def test_a_gain_is_the_last_value_less_an_earlier_one() -> None:
    """Of the runs of one cell alone; not where the evaluation after that share of the updates is lacking."""
    endpoint = Endpoint("gain", "mr", "along", "accuracy", better="higher", share=0.5)
    part = direction(endpoint, "positive", contrast=((1.0, LN),), scale="percent")

    def run(seed: int, gained: float, middle: int = 20) -> RunRecord:
        place = {"split": "mr", "mode": "along"}
        values = {0: 0.9, middle: 0.6, 30: 0.0, 40: 0.6 + gained}
        records = [{**place, "step": step, "epoch": step / 7, "accuracy": value} for step, value in values.items()]
        return RunRecord(f"ln-{seed}", "x/fig", "ln", seed, "done", 0, steps=40, records=records)

    for gained, expected in ((0.05, "reproduced"), (-0.05, "contradicted")):
        found = only(artifact(part), [run(seed, gained + JITTER[seed] / 100) for seed in range(5)])
        assert found["verdict"] == expected and found["effect"] == pytest.approx(100 * gained, abs=0.1)
    assert verdict(artifact(part), [run(seed, 0.05, middle=10) for seed in range(5)]) == "not decidable here"
    assert str(endpoint) == "mr accuracy, gain over the last 50 % of updates (along training)"


@pytest.mark.parametrize(
    ("effect", "within", "expected"),
    [
        (0.0, 0.5, "reproduced"),
        (0.0, 0.2, "undecided"),
        (0.5, 0.5, "undecided"),
        (-0.5, 0.5, "undecided"),
        (1.0, 0.5, "contradicted"),
        (-1.0, 0.5, "contradicted"),
    ],
)
def test_equivalence(effect: float, within: float, expected: str) -> None:
    claim = artifact(direction(kind="equivalence", expect=None, within=within), kind="equivalence")
    found = only(claim, arms(effect))
    assert found["verdict"] == expected and "90 % interval" in found["evidence"]
    assert ("80 % power" in found["evidence"]) == (expected == "undecided")
    assert verdict(claim, [*arms(effect)[2:], *arms(effect, status="diverged")[:2]]) == "undecided"


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


@pytest.mark.parametrize(
    ("bounds", "values", "worst"),
    [({"at_most": 9}, (3, 8, 5), 8), ({"at_most": 1}, (2, 0, 7), 7), ({"at_least": 1}, (5, 2, 3), 2),
     ({"value": 4}, (4, 1, 6), 1), ({"at_least": 1, "at_most": 4}, (2, 9, 0), 9),
     ({"at_most": 1}, (9, "NaN", 3), "nan")],
)  # fmt: skip
def test_of_several_runs_the_number_shown_is_the_one_that_misses_most(
    bounds: Mapping[str, float], values: tuple[Any, ...], worst: Any
) -> None:
    runs = [probe(value, name) for name, value in zip("abc", values, strict=True)]
    assert only(exact(**bounds), runs)["parts"][0]["reason"].startswith(f"gap: {worst} relative, required ")


@pytest.mark.parametrize(
    ("bounds", "wanted"),
    [({"at_most": 1}, "≤ 1"), ({"at_least": 1, "at_most": 4}, "≤ 4 and ≥ 1"), ({"value": 1}, "= 1"),
     ({"at_least": 1, "at_most": 1}, "= 1"), ({"at_least": 0.999999999, "at_most": 1.000000001}, "= 1 ± 1e−09"),
     ({"at_least": 0.24999999975, "at_most": 0.25000000025}, "= 0.25 ± 2.5e−10")],
)  # fmt: skip
def test_two_bounds_that_read_alike_are_one_number(bounds: Mapping[str, float], wanted: str) -> None:
    (part,) = only(exact(**bounds), [probe(1)])["parts"]
    assert part["reason"] == f"gap: 1 relative, required {wanted}"


# divergence and censoring


def test_censored_times_are_decided_by_the_sign_test_alone() -> None:
    claim = artifact(direction(TIME, scale="log", test="sign", unit="log ratio"))
    reached = [timed_run("ln", seed, 3) for seed in range(6)]
    slow = [timed_run("bn", seed, None if seed % 2 else 6) for seed in range(6)]
    found = only(claim, reached + slow)
    assert (found["verdict"], found["effect"], found["interval"]) == ("reproduced", None, None)
    (part,) = found["parts"]
    assert (part["censored"], part["diverged"]) == (3, 0)
    assert part["sign_test"] == {"above": 0, "below": 6, "p": 0.03125}
    assert part["cells"][1]["values"] == ["6", "≥ 8", "6", "≥ 8", "6", "≥ 8"]
    assert found["evidence"].endswith("n = 6, 3 censored, 0 above : 6 below zero, p = 0.0312")
    other = artifact(direction(TIME, "positive", scale="log", test="sign"))
    assert verdict(other, reached + slow) == "contradicted"
    of_means = only(artifact(direction(TIME, scale="log")), reached + slow)
    assert of_means["verdict"] == "undecided"
    assert of_means["evidence"].endswith("a run without a number: no mean is tested")


def test_nothing_is_negligible_where_a_value_is_censored() -> None:
    part = direction(TIME, scale="log", test="sign", delta={"is": 0.9, "why": "w"})
    runs = [timed_run(arm, s, epoch) for s in range(1, 13) for arm, epoch in (("ln", 3), ("bn", 4 + s % 2))]
    assert verdict(artifact(part), runs) == "negligible"
    runs[1] = timed_run("bn", 1, None)
    found = only(artifact(part), runs)
    assert (found["verdict"], found["parts"][0]["censored"], found["parts"][0]["delta"]) == ("reproduced", 1, None)


def test_five_pairs_cannot_be_decided_by_order() -> None:
    runs = [timed_run("ln", seed, 3) for seed in range(5)] + [timed_run("bn", seed, None) for seed in range(5)]
    found = only(artifact(direction(TIME, scale="log", test="sign")), runs)
    assert found["verdict"] == "undecided" and found["evidence"].endswith("the sign test needs 6 pairs or more")


def test_the_sign_test_is_of_the_median() -> None:
    values = [-1.0, -1.1, -1.2, -1.3, -0.9, -50.0]
    runs = [final_run(arm, s, 100 + (v if arm == "ln" else 0)) for s, v in enumerate(values) for arm in ("ln", "bn")]
    assert verdict(artifact(direction()), runs) == "undecided", "an outlier is most of the spread"
    found = only(artifact(direction(test="sign")), runs)
    assert (found["verdict"], found["effect"], found["interval"]) == ("reproduced", -1.15, [-50.0, -0.9])
    assert "points median" not in found["evidence"] and "median points −1.15" in found["evidence"]


def test_the_signed_rank_test_is_told_and_decides_nothing() -> None:
    """With p above 5 % a mean may decide, and with p below it may not; of single runs and lost ones it is not told."""
    (part,) = only(artifact(direction()), arms(-1.0))["parts"]
    assert (part["word"], part["signed_rank"], len(part["seeds"])) == ("holds", 0.0625, 5)
    values = [-0.1, -0.1, -0.1, -0.1, -0.1, -50.0]
    runs = [final_run(arm, s, 100 + (v if arm == "ln" else 0)) for s, v in enumerate(values) for arm in ("ln", "bn")]
    (part,) = only(artifact(direction()), runs)["parts"]
    assert (part["word"], part["signed_rank"]) == ("undecided", 0.03125)
    (part,) = only(artifact(direction()), arms(-1.0, status="diverged"))["parts"]
    assert part["signed_rank"] is None
    equal = [(54.2, 54.1), (54.5, 54.4), (54.1, 54.3)]  # two effects of 0.1, which rounding tells apart
    runs = [final_run(arm, s, v) for s, pair in enumerate(equal) for arm, v in zip(("ln", "bn"), pair, strict=True)]
    (part,) = only(artifact(direction()), runs)["parts"]
    assert part["signed_rank"] == 1.0
    size = direction(kind="size", expect=None, paper=3.0, band=1.0)
    assert only(artifact(size, kind="size"), arms(-1.0))["parts"][0]["signed_rank"] is None


def times(*epochs: int) -> list[RunRecord]:
    """BN's, and LN's of always 2."""
    return [run for s, epoch in enumerate(epochs) for run in (timed_run("ln", s, 2), timed_run("bn", s, epoch))]


def test_times_that_are_all_reached_get_an_interval() -> None:
    found = only(artifact(direction(TIME, scale="log", unit="log ratio")), times(4, 4, 4, 4, 5))
    assert found["verdict"] == "reproduced" and found["effect"] == pytest.approx(-0.737776)


def test_a_share_of_the_way_is_one_level_for_the_runs_compared() -> None:
    """From the highest start of a seed's runs to their lowest value; who never comes so far is slower."""

    def run(arm: str, seed: int, *errors: float) -> RunRecord:
        records = [
            {"epoch": 3 * e, "split": "valid", "mode": "eval", "error": value, "step": 30 * e}
            for e, value in enumerate(errors)
        ]
        return RunRecord(f"{arm}-{seed}", "x/fig", arm, seed, "done", 9, records=records)

    def steps(share: float, *runs: RunRecord) -> list[str]:
        endpoint = Endpoint(
            "time_to_level", split="valid", mode="eval", metric="error", share=share, of="best", clock="step"
        )
        part = only(artifact(direction(endpoint, scale="log")), runs)["parts"][0]
        assert part["endpoint"].startswith(f"updates to valid error {100 * share:g} % of the way to the best of them")
        return [cell["values"] for cell in part["cells"]]

    ln, bn = run("ln", 1, 1.0, 0.6, 0.2, 0.3), run("bn", 1, 1.2, 1.1, 0.8, 0.5)
    assert steps(0.5, ln, bn) == [["22.5"], ["70"]]
    assert steps(1, ln, bn) == [["60"], ["≥ 90"]]
    other = [run("ln", 2, 1.0, 0.9, 0.8, 0.8), run("bn", 2, 1.0, 0.0, 0.0, 0.0)]
    assert steps(0.5, ln, bn, *other) == [["22.5", "≥ 90"], ["70", "15"]]

    def against(endpoint: Endpoint) -> Any:
        return only(artifact(direction(endpoint, scale="log")), [ln, bn])["parts"][0]

    time = Endpoint("time_to_level", split="valid", mode="eval", metric="error", share=0.5, clock="step")
    alone = against(replace(time, of={"arm": "bn"}))
    assert alone["endpoint"].startswith("updates to valid error 50 % of the way to the best of arm bn")
    assert [cell["values"] for cell in alone["cells"]] == [["11.3"], ["55"]], "from 1.2 to 0.5, whatever ln does"
    rising = against(replace(time, of="best", better="higher"))
    assert [cell["values"] for cell in rising["cells"]] == [["≥ 90"], ["0"]], "up from 1 to 1.2"
    best = Endpoint("chosen", split="valid", mode="eval", metric="error", epoch="best", least=0.75)
    area = Endpoint("area", split="valid", mode="eval", metric="error", least=0.75)
    timed = [replace(time, of=of, least=0.75) for of in ({"arm": "bn"}, {"arm": "ln"}, "best")]  # bn has come 0.7
    for endpoint in (*timed, area, best):
        part = against(endpoint)
        assert part["word"] == "not decidable here" and "has not come 0.75 from its start" in part["reason"]
    for endpoint in (replace(timed[-1], least=0.6), replace(area, least=0.6), replace(best, least=0.6)):
        assert "has not come" not in against(endpoint)["reason"]


def test_a_run_that_diverged_after_it_reached_the_level_counts_and_is_shown() -> None:
    runs = times(4, 4, 4, 4, 5)
    runs[0] = replace(runs[0], status="diverged")
    found = only(artifact(direction(TIME, scale="log")), runs)
    assert (found["verdict"], found["parts"][0]["diverged"]) == ("reproduced", 1)
    assert found["evidence"].endswith("n = 5, 1 diverged")


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
    found = only(artifact(direction(TIME, scale="log", test="sign")), runs)
    assert found["effect"] is None and found["parts"][0]["sign_test"]["below"] == 6
    assert found["verdict"] == "reproduced" and found["parts"][0]["censored"] == 0


@pytest.mark.parametrize(("endpoint", "expect"), [(ERROR, "negative"), (ACCURACY, "positive")])
def test_a_diverged_run_is_worst(endpoint: Endpoint, expect: str) -> None:
    better = -1.0 if expect == "negative" else 1.0
    runs = arms(better, n=6, metric=endpoint.metric)
    runs[0] = replace(runs[0], status="diverged", records=runs[0].records[:1])  # bn, seed 1
    claim = artifact(direction(endpoint, expect, test="sign"))
    found = only(claim, runs)
    assert (found["verdict"], found["parts"][0]["diverged"], found["effect"]) == ("reproduced", 1, None)
    assert found["parts"][0]["cells"][1]["values"][0] == "diverged"
    assert verdict(artifact(direction(endpoint, expect)), runs) == "undecided", "it has no mean"
    runs[1] = replace(runs[1], status="diverged", records=runs[1].records[:1])  # now ln, seed 1 as well
    assert verdict(claim, runs) == "undecided"


def test_a_final_value_that_is_not_finite_counts_as_diverged() -> None:
    runs = [*arms(-1.0)[2:], final_run("bn", 1, "Infinity"), final_run("ln", 1, 1.0)]
    assert only(artifact(direction()), runs)["parts"][0]["diverged"] == 1


def test_the_order_of_a_lost_run_is_known_over_any_number_of_cells() -> None:
    cells = [{"arm": arm} for arm in ("a", "b", "c", "d")]
    contrast = tuple(zip((1.0, -1.0, -1.0, 1.0), cells, strict=True))
    runs = [final_run(arm, s, float(ord(arm) ** 2) + (arm == "d") * JITTER[s]) for s in range(10) for arm in "abcd"]
    claim = artifact(direction(contrast=contrast, expect="positive", test="sign"))
    assert verdict(claim, runs) == "reproduced"
    lost = [replace(run, status="diverged") for run in runs[:4]]
    assert only(claim, [lost[0], *runs[1:]])["parts"][0]["sign_test"]["above"] == 10, "worst on the claimed side"
    assert only(claim, [lost[0], lost[3], *runs[1:3], *runs[4:]])["parts"][0]["sign_test"]["above"] == 10
    against = only(claim, [runs[0], lost[1], *runs[2:]])["parts"][0]["sign_test"]
    assert (against["above"], against["below"]) == (9, 1)
    both = only(claim, [lost[0], lost[1], *runs[2:]])["parts"][0]["sign_test"]
    assert (both["above"], both["below"]) == (9, 0), "lost on both sides: its order is not known"


def test_a_size_needs_a_number_of_every_run() -> None:
    claim = artifact(direction(TIME, kind="size", scale="log", paper=-0.7, band=0.5, expect=None), kind="size")
    fast, never = [timed_run("ln", s, 3) for s in range(6)], [timed_run("bn", s, None) for s in range(6)]
    assert verdict(claim, fast + never) == "undecided"
    swap = {"ln": "bn", "bn": "ln"}
    assert verdict(claim, [replace(run, arm=swap[run.arm]) for run in fast + never]) == "undecided"
