"""Verdicts on synthetic runs: true, false, tied, missing, diverged, censored, few, looked at twice."""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from normbench.errors import NormbenchError
from normbench.papers.claims import Artifact, Claim, Endpoint, Part
from normbench.papers.verdicts import judge
from normbench.runs.record import RunRecord

ERROR = Endpoint("final", split="test", mode="eval", metric="error")
ACCURACY = Endpoint("final", split="test", mode="eval", metric="accuracy", better="higher")
NLL = Endpoint("final", split="train", mode="eval", metric="nll")
TIME = Endpoint("time_to_level", split="train", mode="eval", metric="nll", level=0.1)
LN, BN = {"arm": "ln"}, {"arm": "bn"}
PAIR = ((1.0, LN), (-1.0, BN))
JITTER = (0.0, 0.3, -0.2, 0.1, -0.3, 0.2, -0.1, 0.25, -0.25, 0.15)  # fixed spread around an effect


def direction(endpoint: Endpoint = ERROR, expect: str | None = "negative", name: str = "p", **more: Any) -> Part:
    values = {"kind": "direction", "contrast": PAIR, "scale": "linear", "unit": "points", "expect": expect}
    return Part(name, endpoint=endpoint, **{**values, **more})


def artifact(*parts: Part, kind: str = "direction", open: Sequence[str] = (), seeds: int = 5, **more: Any) -> Artifact:
    controls = ("lr-low", "lr-high") if open else ()
    values: dict[str, Any] = {"reported": (), "controls": controls, "not_decidable": "", **more, "open": tuple(open)}
    claim = Claim("C1", kind, "s", "q", "l", parts=parts, **values)
    return Artifact("x/fig", "t", "l", "x/fig", seeds, {"paper": ["d"], "smoke": ["e"]}, {}, (), (claim,), "a" * 64)


def final_run(arm: str, seed: int, value: float | str | None, metric: str = "error", **more: Any) -> RunRecord:
    split = "train" if metric == "nll" else "test"
    records = [{"epoch": 0, "split": split, "mode": "eval", metric: 1.0, "step": 0}]
    if value is not None:
        records.append({"epoch": 3, "split": split, "mode": "eval", metric: value, "step": 30})
    control = more.get("control", "")
    values: dict[str, Any] = {"status": "done", "epochs": 3, "records": records, **more}
    return RunRecord(f"{arm}-{seed}-{control}-{more.get('axes', '')}", "x/fig", arm, seed, **values)


def timed_run(arm: str, seed: int, epoch: int | None, epochs: int = 8, status: str = "done") -> RunRecord:
    """Meets the level exactly at `epoch`, or never."""
    last = epochs if status == "done" else 2
    values = [(e, 0.1 if epoch is not None and e >= epoch else 1.0) for e in range(last + 1)]
    records = [{"epoch": e, "split": "train", "mode": "eval", "nll": v, "step": e} for e, v in values]
    return RunRecord(f"{arm}-{seed}", "x/fig", arm, seed, status, epochs, records=records)


def arms(effect: float, n: int = 5, spread: float = 1.0, base: float = 10.0, **more: Any) -> list[RunRecord]:
    """n paired seeds whose difference ln − bn is `effect` with a fixed spread; bn varies much more."""
    runs = []
    for seed in range(n):
        bn = base + (seed * 7 % 5)
        runs.append(final_run("bn", seed, bn, **more))
        runs.append(final_run("ln", seed, bn + effect + spread * JITTER[seed], **more))
    return runs


def only(artifact: Artifact, runs: Sequence[RunRecord], fidelity: str = "paper", **more: Any) -> dict[str, Any]:
    content = judge(artifact, runs, fidelity, **more)
    json.dumps(content, allow_nan=False)
    (claim,) = content["claims"]
    assert "\n" not in claim["evidence"]
    return dict(claim)


def verdict(*args: Any, **more: Any) -> str:
    return str(only(*args, **more)["verdict"])


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


def test_nothing_is_decided_before_the_planned_n() -> None:
    """The n of a claim of ten seeds is ten: who looks at five, six, ... finds some effect at one of them."""
    claim, planned = artifact(direction(), seeds=10), lambda part, control: 10
    early = only(claim, arms(-1.0, n=9), planned=planned)
    assert early["verdict"] == "inconclusive" and early["evidence"].endswith("no verdict before the planned n = 10")
    assert verdict(claim, arms(-1.0, n=10), planned=planned) == "reproduced"
    assert only(claim, arms(-1.0, n=4), planned=planned)["evidence"].count("no verdict") == 1
    opened = artifact(direction(), open=["rate"], seeds=10)
    runs = [*arms(1.0, n=10), *arms(1.0, n=5, control="lr-low"), *arms(1.0, n=5, control="lr-high")]
    assert verdict(opened, runs, planned=lambda part, control: 5 if control else 10) == "contradicted"
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
            records += [{**place, "variant": f"block={k}", "error": part} for k, part in enumerate(parts, 1)]
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
            run, records=[*run.records, {"epoch": 3, "split": "train", "mode": "eval", "nll": nll.records[1]["nll"]}]
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
        {"schema": 2}, {"artifact": "y/fig"}, {"fidelity": "smoke"}, {"claims": None}, {"claims": ["C1"]},
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
