"""The rules sentence by sentence, through `judge` and `parts.Seen`; how often they err is in `test_error_rates`."""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from normbench.curves.series import area, at_epoch, best_step, log_floored
from normbench.curves.statistics import t_interval
from normbench.errors import NormbenchError
from normbench.papers import artifact as artifacts
from normbench.papers import rules, verdicts
from normbench.papers.claims import Artifact, Claim, Endpoint, Part, load
from normbench.papers.parts import Seen, result
from normbench.runs.record import RunRecord

ERROR = Endpoint("final", split="test", mode="eval", metric="error")
PAIR = ((1.0, {"arm": "ln"}), (-1.0, {"arm": "bn"}))
SHAPE = (-2.0, -1.0, 0.0, 1.0, 2.0)
UNIT = (t_interval(SHAPE).interval or (0, 0))[1]  # half the 95 % interval of that


def direction(name: str = "p", **more: Any) -> Part:
    values: dict[str, Any] = {"contrast": PAIR, "scale": "linear", "unit": "points", "expect": "positive", **more}
    return Part(name, values.pop("kind", "direction"), values.pop("endpoint", ERROR), **values)


def effects(mean: float, half: float) -> list[float]:
    """Five seeds with the 95 % interval mean ± half; that of 90 % is ± 0.77 half, of 99 % ± 1.66 half."""
    return [mean + half / UNIT * u for u in SHAPE]


def seen(part: Part, values: Sequence[float | tuple[float, float]], delta: float | None = None, **more: Any) -> Seen:
    bounds = tuple(v if isinstance(v, tuple) else (v, v) for v in values)
    return Seen(part, **{"complete": True, "effects": bounds, "delta": delta, "seeds": range(len(bounds)), **more})


def word(values: Sequence[float | tuple[float, float]], delta: float | None = None, **more: Any) -> str:
    part = more.pop("part", direction())
    return rules.part_word(part, seen(part, values, delta, **more))


def claim_of(*found: tuple[Sequence[float], float | None]) -> str:
    return rules.claim_word([(part, seen(part, *pair)) for pair in found for part in [direction()]])


# --- a direction -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mean", "half", "expected"),
    [
        (1.5, 1.0, "holds"),
        (1.5, 1.6, "undecided"),
        (-1.5, 1.0, "opposite"),
        (0.0, 1.2, "negligible"),  # 90 %: ± 0.92
        (0.0, 1.4, "undecided"),  # 90 %: ± 1.07
        (0.5, 0.4, "negligible"),  # surely positive, and surely small: small comes first
        (-0.5, 0.4, "negligible"),
        (0.5, 0.7, "undecided"),  # 90 %: up to 1.04; 95 %: from -0.2
        (0.8, 0.4, "holds"),  # 90 %: up to 1.1
        (-0.8, 0.4, "opposite"),
    ],
)
def test_a_direction_is_first_negligible_then_has_a_side(mean: float, half: float, expected: str) -> None:
    assert word(effects(mean, half), delta=1.0) == expected
    mirrored = {"holds": "opposite", "opposite": "holds"}.get(expected, expected)
    assert word(effects(mean, half), delta=1.0, part=direction(expect="negative")) == mirrored
    told = result(seen(direction(), effects(mean, half), 1.0), expected)
    assert told["effect"] == pytest.approx(mean) and (told["interval"][0] > 0) == (mean - half > 0)  # the sign is told


def test_without_a_smallest_effect_nothing_is_negligible() -> None:
    assert word(effects(0.5, 0.4)) == "holds"
    assert word(effects(0.0, 0.01)) == "undecided"


def test_at_exactly_the_smallest_effect_nothing_is_negligible() -> None:
    ninety = t_interval(effects(0.5, 0.4), 0.9).interval
    assert ninety and word(effects(0.5, 0.4), delta=ninety[1]) == "holds"
    assert word(effects(0.5, 0.4), delta=ninety[1] + 1e-9) == "negligible"


def test_seen_seeds_make_nothing_negligible_and_give_no_side_to_what_is_small() -> None:
    for mean in (0.0, 0.5, -0.5):
        assert word(effects(mean, 0.4), delta=1.0, fresh=False) == "undecided"
        part = direction()
        told = result(seen(part, effects(mean, 0.4), 1.0, fresh=False), "undecided")
        assert "inside, but post hoc" in told["reason"]
    assert word(effects(1.5, 1.0), delta=1.0, fresh=False) == "holds"
    assert word(effects(-1.5, 1.0), delta=1.0, fresh=False) == "opposite"


def test_an_unplanned_second_look_makes_nothing_negligible_nor_equivalent() -> None:
    assert word(effects(0.0, 0.4), delta=1.0, planned=False) == "undecided"
    assert word(effects(1.5, 1.0), delta=1.0, planned=False) == "holds"
    equal = direction(kind="equivalence", expect=None, within=1.0)
    assert word(effects(0.0, 0.4), part=equal) == "holds"
    assert word(effects(0.0, 0.4), part=equal, planned=False) == "undecided"
    assert word(effects(3.0, 0.4), part=equal, planned=False) == "opposite"


@pytest.mark.parametrize("value", [0.0, 0.5, -3.0])
def test_a_spread_of_zero_decides_nothing(value: float) -> None:
    equal, size = (
        direction(kind="equivalence", expect=None, within=5.0),
        direction(kind="size", expect=None, paper=value, band=9.0),
    )
    for part in (direction(), equal, size, direction(test="sign")):
        assert word([value] * 10, delta=1.0, part=part) == "undecided"


def test_a_spread_that_is_rounding_alone_decides_nothing() -> None:
    runs = [
        final_run(arm, seed, (seed * 7 + more) / 625) for seed in range(1, 9) for arm, more in (("ln", 3), ("bn", 2))
    ]
    found = only(artifact(direction(scale="percent", delta={"is": 0.1, "why": "w"})), runs)
    assert 0 < found["parts"][0]["sd"] < 1e-12  # one example of 625 in every seed
    assert (found["verdict"], found["robustness"]) == ("undecided", "")
    assert "a spread of zero decides nothing" in found["evidence"]


def test_a_run_without_a_number_leaves_means_undecided_and_signs_not() -> None:
    values = [5.0, 5.1, 5.2, 5.3, 5.4, 5.5, (math.inf, math.inf)]
    assert word(values) == "undecided"
    assert word(values, part=direction(test="sign")) == "holds"
    assert word([*values[:6], (-math.inf, -math.inf)], part=direction(test="sign")) == "undecided"


def test_where_a_value_is_censored_nothing_is_negligible() -> None:
    signed = direction(test="sign")
    small = [0.01 * seed for seed in range(-9, 10)]
    assert word(small, delta=0.1, part=signed) == "negligible"
    censored: list[Any] = [*small[:-1], (0.2, math.inf)]
    assert word(censored, delta=0.1, part=signed) == "undecided"
    assert "censored" in result(seen(signed, censored, 0.1), "undecided")["reason"]


# --- an equivalence, a size, an order, an exact number ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("mean", "half", "expected"),
    [
        (0.0, 1.2, "holds"),
        (0.0, 1.4, "undecided"),
        (0.6, 0.5, "holds"),
        (2.5, 1.4, "opposite"),
        (-2.5, 1.4, "opposite"),
        (2.5, 1.6, "undecided"),
    ],
)
def test_an_equivalence_has_its_own_margin(mean: float, half: float, expected: str) -> None:
    assert word(effects(mean, half), part=direction(kind="equivalence", expect=None, within=1.0)) == expected
    wider = direction(kind="equivalence", expect=None, within=9.0)
    assert word(effects(mean, half), part=wider) == "holds"


@pytest.mark.parametrize(
    ("paper", "band", "expected"),
    [
        (0.0, 2.5, "holds"),  # prediction interval ± 2.45
        (0.0, 2.4, "undecided"),  # our runs vary by more than the band
        (1.0, 3.5, "holds"),
        (1.0, 3.4, "undecided"),  # one of our runs could lie 3.45 below
        (2.5, 9.0, "opposite"),
        (-2.5, 9.0, "opposite"),
    ],
)
def test_a_size_is_held_against_the_spread_of_single_runs(paper: float, band: float, expected: str) -> None:
    part = direction(kind="size", expect=None, paper=paper, band=band)
    assert word(effects(0.0, 1.0), part=part) == expected  # ± 1 · √6 = ± 2.449


def test_a_size_of_several_differs_by_a_wider_interval() -> None:
    one = direction(kind="size", expect=None, paper=3.0, band=9.0)
    other = replace(one, paper=0.0)
    values = effects(0.0, 1.0)
    assert word(values, part=one) == "opposite"
    assert rules.claim_word([(one, seen(one, values))]) == "opposite"
    assert rules.claim_word([(one, seen(one, values)), (other, seen(other, values))]) == "undecided"  # ± 3.08 of two
    far = replace(one, paper=3.2)
    assert rules.claim_word([(far, seen(far, values)), (other, seen(other, values))]) == "opposite"


def test_an_order_is_smallest_first_pair_by_pair(tmp_path: Path) -> None:
    cells = [{"arm": "low"}, {"arm": "middle"}, {"arm": "high"}]
    numbers = {"low": 1.0, "middle": 2.0, "high": 3.0}
    spread = (0.0, 0.1, -0.1, 0.05, -0.05)
    runs = [
        final_run(arm, s, value + (1 + len(arm) / 9) * spread[s]) for arm, value in numbers.items() for s in range(5)
    ]

    def verdict(order: Sequence[Any]) -> dict[str, Any]:
        end = {"kind": "final", "split": "test", "mode": "eval", "metric": "error"}
        part = {"id": "o", "endpoint": end, "scale": "linear", "unit": "points", "order": list(order)}
        return only(load(written(tmp_path, claim_data("order", part))), runs)

    assert verdict(cells)["setting"] == "holds"
    assert verdict(cells[::-1])["setting"] == "opposite"
    swapped = verdict([cells[0], cells[2], cells[1]])
    assert [part["word"] for part in swapped["parts"]] == ["holds", "opposite"] and swapped["setting"] == "opposite"


def test_an_exact_number_is_compared() -> None:
    part = Part("e", "exact", Endpoint("value", key="gap"), ((1.0, {}),), "linear", "relative", at_most=1e-9)
    claims = artifact(part, kind="exact")
    for value, expected in ((1e-12, "reproduced"), (1e-3, "contradicted")):
        run = RunRecord("p", "x/fig", "p", 0, "done", 0, records=[{"gap": value}])
        assert only(claims, [run])["verdict"] == expected


# --- a claim of k parts ----------------------------------------------------------------------------------------------

SURE, SMALL, OPEN, AGAINST = ((5.0, 0.4), 1.0), ((0.0, 0.4), 1.0), ((0.5, 5.0), 1.0), ((-5.0, 0.4), 1.0)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([SURE, SURE], "holds"),
        ([SURE, OPEN], "undecided"),
        ([SURE, SMALL], "negligible"),
        ([OPEN, SMALL], "negligible"),
        ([SURE, AGAINST], "opposite"),
        ([OPEN, AGAINST], "opposite"),
        ([SMALL, AGAINST], "opposite"),
        ([SMALL, SMALL], "negligible"),
    ],
)
def test_all_parts_hold_or_any_one_decides(parts: Any, expected: str) -> None:
    for order in (parts, parts[::-1]):
        assert claim_of(*((effects(*shape), delta) for shape, delta in order)) == expected


@pytest.mark.parametrize("k", [2, 6])
def test_any_one_of_k_parts_is_asked_for_more(k: int) -> None:
    sure = (effects(5.0, 0.4), 1.0)
    level = 1 - 0.05 / k
    width = (t_interval(SHAPE, level).interval or (0, 0))[1] / UNIT  # of that interval, in halves of the 95 % one
    assert claim_of(*[sure] * (k - 1), (effects(-3.0, 2.9 / width), 1.0)) == "opposite"
    assert claim_of(*[sure] * (k - 1), (effects(-3.0, 3.1 / width), 1.0)) == "undecided"
    assert word(effects(-3.0, 3.1 / width), 1.0) == "opposite"  # by itself
    width = (t_interval(SHAPE, 1 - 2 * 0.05 / k).interval or (0, 0))[1] / UNIT
    assert claim_of(*[sure] * (k - 1), (effects(0.0, 0.95 / width), 1.0)) == "negligible"
    assert claim_of(*[sure] * (k - 1), (effects(0.0, 1.05 / width), 1.0)) == "undecided"
    assert word(effects(0.0, 1.05 / width), 1.0) == "negligible"


def test_what_is_small_at_the_claims_level_opposes_at_no_level() -> None:
    small = effects(-0.6, 0.45)  # 90 %: down to -0.95; 99.2 %: from -1.4 to 0.2, 97.5 %: -1.17 to -0.03
    assert word(small, 1.0) == "negligible"
    parts = [(direction(), seen(direction(), values, 1.0)) for values in (effects(5.0, 0.4), small)]
    assert rules.part_word(*parts[1], rules.ALPHA / 2) == "opposite"  # asked alone, without what the claim's level says
    assert rules.claim_word(parts) == "undecided" and not rules.opposes(*parts[1], 2)
    # Under one of two controls too, where it would make the word one that depends.
    own, strict = rules.control_words(parts[1:], 2)
    assert (own, strict) == ("negligible", "undecided")
    assert rules.robustness("negligible", [(own, strict)] * 2) == "robust"


def test_only_a_direction_makes_a_claim_negligible() -> None:
    equal = direction(kind="equivalence", expect=None, within=1.0)
    sure = direction()
    pair = [(equal, seen(equal, effects(0.0, 5.0), 1.0)), (sure, seen(sure, effects(5.0, 0.4), 1.0))]
    assert rules.claim_word(pair) == "undecided"


def test_a_negligible_claim_says_how_many_of_its_parts() -> None:
    parts = [direction(name, contrast=((1.0, {"arm": name}), (-1.0, {"arm": "bn"}))) for name in ("a", "b", "c")]
    runs = [final_run("bn", seed, 10.0) for seed in range(1, 6)]
    for name, mean in (("a", 0.0), ("b", 5.0), ("c", 0.01)):
        runs += [final_run(name, seed, 10.0 + e) for seed, e in enumerate(effects(mean, 0.4), 1)]
    delta = {"is": 1.0, "why": "w"}
    found = only(artifact(*(replace(part, delta=delta) for part in parts)), runs)
    assert (found["setting"], found["verdict"]) == ("negligible", "negligible (2 of 3 parts)")


# --- controls, and the verdict ---------------------------------------------------------------------------------------

H, O, N, U, R = "holds", "opposite", "negligible", "undecided", "not run"  # noqa: E741


@pytest.mark.parametrize(
    ("setting", "controls", "expected"),
    [
        (H, [(H, H), (H, U)], "robust"),
        (H, [(H, H), (O, O)], "depends"),
        (H, [(N, N), (R, R)], "depends"),
        (H, [(H, H), (O, U)], "undecided"),  # another word, but not at the level of one of two
        (H, [(H, H), (U, U)], "undecided"),
        (H, [(H, H), (R, R)], "not run"),
        (O, [(O, O), (H, H)], "depends"),
        (N, [(N, N), (N, U)], "robust"),
        (N, [(N, N), (H, H)], "depends"),
        (H, [], ""),
        (U, [(H, H), (O, O)], ""),
    ],
)
def test_robust_is_the_same_word_at_every_control(setting: str, controls: Any, expected: str) -> None:
    assert rules.robustness(setting, controls) == expected
    assert rules.robustness(setting, controls[::-1]) == expected


@pytest.mark.parametrize("dissenting", ["lr-low", "lr-high"])
@pytest.mark.parametrize(
    ("mean", "half", "robust", "verdict"),
    [
        (3.0, 1.0, "robust", "reproduced"),
        (-3.0, 1.0, "depends", "holds at the paper's setting; controls depend"),
        (0.0, 0.5, "depends", "holds at the paper's setting; controls depend"),
        (-3.0, 2.6, "undecided", "holds at the paper's setting; controls undecided"),
        (0.5, 3.0, "undecided", "holds at the paper's setting; controls undecided"),
        (None, 0.0, "not run", "holds at the paper's setting; controls not run"),
    ],
)
def test_one_control_is_enough_to_dissent(
    dissenting: str, mean: float | None, half: float, robust: str, verdict: str
) -> None:
    claims = artifact(direction(delta={"is": 1.0, "why": "w"}), open=("rate",))
    runs = compared(effects(3.0, 1.0))
    for name in ("lr-low", "lr-high"):
        if name != dissenting:
            runs += compared(effects(3.0, 1.0), control=name)
        elif mean is not None:
            runs += compared(effects(mean, half), control=name)
    found = only(claims, runs)
    assert (found["setting"], found["robustness"]) == ("holds", robust)
    assert found["verdict"] == verdict


def test_small_here_and_signed_there_is_no_other_word_unless_it_is_surely_larger() -> None:
    claims = artifact(direction(delta={"is": 1.0, "why": "w"}), open=("rate",))
    signed, small = compared(effects(1.2, 0.5)), effects(0.5, 0.4)  # from 0.7, and up to 0.8: they may be the same
    controls = [run for name in ("lr-low", "lr-high") for run in compared(small, control=name)]
    found = only(claims, signed + controls)
    assert (found["setting"], found["robustness"]) == ("holds", "undecided")
    assert only(claims, compared(effects(3.0, 0.5)) + controls)["robustness"] == "depends"


def test_a_control_needs_its_planned_seeds_and_five() -> None:
    claims = artifact(direction(), open=("rate",))
    runs = compared(effects(3.0, 1.0)) + compared(effects(3.0, 1.0), control="lr-low")
    short = compared(effects(3.0, 1.0), control="lr-high")[:-2]
    assert only(claims, runs + short)["robustness"] == "not run"
    assert only(claims, runs + compared(effects(3.0, 1.0), control="lr-high"))["robustness"] == "robust"


@pytest.mark.parametrize(
    ("setting", "robust", "ours", "fidelity", "expected"),
    [
        (H, "", False, "paper", "reproduced"),
        (H, "robust", False, "paper", "reproduced"),
        (O, "robust", False, "paper", "contradicted"),
        (N, "robust", False, "paper", "negligible"),
        (H, "robust", True, "paper", "supported"),
        (O, "", True, "paper", "refuted"),
        (N, "", True, "paper", "negligible"),
        (H, "depends", False, "paper", "holds at the paper's setting; controls depend"),
        (O, "undecided", True, "paper", "opposite at the paper's setting; controls undecided"),
        (N, "not run", False, "paper", "negligible at the paper's setting; controls not run"),
        (U, "", False, "paper", "undecided"),
        (R, "", False, "paper", "not run"),
        ("not decidable here", "", False, "paper", "not decidable here"),
        (H, "robust", False, "reduced", "holds (reduced); controls robust"),
        (O, "", True, "smoke", "opposite (smoke)"),
        (N, "", False, "proxy", "negligible (proxy)"),
        (U, "", False, "smoke", "undecided (smoke)"),
    ],
)
def test_the_words_of_a_verdict(setting: str, robust: str, ours: bool, fidelity: str, expected: str) -> None:
    assert rules.verdict(setting, robust, ours, fidelity) == expected
    assert expected.split(" ")[0] in rules.NEWS


@pytest.mark.parametrize("fidelity", ["reduced", "proxy", "smoke"])
@pytest.mark.parametrize("setting", [H, O, N, U])
def test_below_paper_nothing_is_reproduced_or_contradicted(fidelity: str, setting: str) -> None:
    for robust in ("", "robust", "depends", "undecided", "not run"):
        for ours in (True, False):
            said = rules.verdict(setting, robust, ours, fidelity)
            assert said.startswith(f"{setting} ({fidelity})")


# --- smallest effects ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "metric", "scale", "data", "expected"),
    [
        ("final", "error", "percent", "cifar10", 0.5),
        ("final", "error", "percent", "mnist", 0.1),
        ("chosen", "error_published", "percent", "imdb", 0.5),
        ("chosen", "nll", "linear", "cifar10", 0.02),
        ("chosen", "nll", "linear", "mnist", 0.005),
        ("final", "nll", "log", "mnist", 0.03),
        ("area", "nll", "log", "cifar10", 0.03),
        ("final", "loss", "log", "recall", 0.03),
        ("time_to_level", "nll", "log", "mnist", 0.10),
        ("final", "r@1", "percent", "flickr", 0.3),
        ("final", "r@10", "percent", "flickr", 0.3),
        ("final", "bound", "linear", "mnist_binary", 0.1),
        ("final", "bound", "linear", "iam_ondb", 5.0),
        ("final", "mse", "linear", "cifar10", None),
        ("value", "", "linear", "", None),
    ],
)
def test_smallest_effects_by_data_set(kind: str, metric: str, scale: str, data: str, expected: float | None) -> None:
    end = Endpoint(kind, split="test", mode="eval", metric=metric, key="gradient_slope_size")
    part = direction(endpoint=end, scale=scale)
    assert rules.smallest_effect(part, data) == expected
    assert rules.smallest_effect(replace(part, delta={"is": 7, "why": "w"}), data) == 7
    shifted = replace(part, delta={"is": None, "why": "shifted by a quarter"})
    assert rules.smallest_effect(shifted, data) is None
    rules.check_smallest_effect(shifted, data, "here")
    assert rules.smallest_effect(replace(part, kind="equivalence", within=1.0), data) is None
    if expected is None:
        with pytest.raises(
            NormbenchError, match=r"^here: part 'p': rules.yaml has no smallest effect for .*why: \.\.\.\}"
        ):
            rules.check_smallest_effect(part, data, "here")
    else:
        rules.check_smallest_effect(part, data, "here")


# --- what no plan could decide is refused when it is read -------------------------------------------------------------


@pytest.mark.parametrize(("k", "one", "two"), [(1, 6, 7), (2, 7, 8), (6, 8, 9)])
def test_fewest_pairs_of_the_sign_test(k: int, one: int, two: int) -> None:
    assert (rules.fewest_pairs(0.05 / k), rules.fewest_pairs(0.025 / k)) == (one, two)
    part = direction(test="sign")
    for n, alpha in ((one, 0.05), (two, 0.025)):
        for pairs, expected in ((n, "holds"), (n - 1, "undecided")):
            values = [1.0 + 0.1 * seed for seed in range(pairs)]
            assert rules.part_word(part, seen(part, values), alpha / k) == expected


@pytest.mark.parametrize(("k", "looks", "least"), [(1, None, 6), (2, None, 7), (6, None, 8), (1, [5, 6], 7)])
def test_a_plan_with_fewer_pairs_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, k: int, looks: Any, least: int
) -> None:
    parts = [fig6_part(f"p{place}", test="sign", expect="negative") for place in range(k)]
    more: dict[str, Any] = {"looks": looks} if looks else {}
    monkeypatch.setattr(artifacts, "HERE", tmp_path)
    for seeds in (least, least - 1):
        more["seeds"] = {"from": 2, "to": 1 + seeds}
        written(tmp_path, claim_data("direction", *parts, experiment="ln2016/fig6", **more))
        if seeds == least:
            assert artifacts.load("fig").claims
            continue
        with pytest.raises(NormbenchError, match=f"plans {seeds} of the {least} seeds") as refused:
            artifacts.load("fig")
        assert "\n" not in str(refused.value) and "claim C1" in str(refused.value)


def test_a_look_beyond_the_plan_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifacts, "HERE", tmp_path)
    claim = claim_data("direction", fig6_part("p", expect="negative"), experiment="ln2016/fig6", looks=[5, 20])
    written(tmp_path, claim)
    with pytest.raises(NormbenchError, match="looked at with 20 seeds, ln2016/fig6 plans 10"):
        artifacts.load("fig")


def test_a_missing_smallest_effect_and_an_unknown_control_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artifacts, "HERE", tmp_path)
    data = claim_data("direction", fig6_part("p", scale="log", expect="negative"), experiment="ln2016/fig6")
    written(tmp_path, data)
    with pytest.raises(NormbenchError, match=r"claim C1: part 'p': rules\.yaml has no smallest effect") as refused:
        artifacts.load("fig")
    assert "\n" not in str(refused.value)
    sound = fig6_part("p", expect="negative")
    written(tmp_path, claim_data("direction", sound, experiment="ln2016/fig6", open=["rate"], controls=["lr-lo"]))
    with pytest.raises(
        NormbenchError, match=r"control 'lr-lo' is none of ln2016/fig6\. Did you mean 'lr-low'"
    ) as refused:
        artifacts.load("fig")
    assert "\n" not in str(refused.value)


# --- looks, and seeds that alone count --------------------------------------------------------------------------------


class Plan:
    """Seeds 1 to n everywhere, and 1 as the smallest effect."""

    sha256 = "r"

    def __init__(self, n: int) -> None:
        self.n = n

    def seeds(self, part: Part, control: str, alone: Sequence[int] | None) -> list[int]:
        return [seed for seed in range(1, self.n + 1) if alone is None or seed in alone]

    def smallest_effect(self, part: Part) -> float | None:
        return 1.0


def test_seeds_that_had_been_seen_do_not_count_beside_fresh_ones() -> None:
    old, fresh = compared(effects(5.0, 0.4), first=1), compared(effects(-5.0, 0.4), first=6)
    claims = artifact(direction(), seeds=range(6, 11))
    found = only(claims, old + fresh, planned=Plan(10))
    assert found["verdict"] == "contradicted" and found["parts"][0]["seeds"] == [6, 7, 8, 9, 10]
    assert found["effect"] == pytest.approx(-5.0) and "judged on seeds 6 to 10 alone" in found["evidence"]
    assert only(claims, old, planned=Plan(10))["setting"] in ("undecided", "not run")
    assert only(claims, old + fresh[:-2], planned=Plan(10))["setting"] == "undecided"
    pooled = only(artifact(direction()), old + fresh, planned=Plan(10))
    assert pooled["parts"][0]["seeds"] == list(range(1, 11)) and pooled["setting"] == "undecided"


def test_what_is_small_on_seen_seeds_is_negligible_on_fresh_ones_alone() -> None:
    claims = replace(artifact(direction(), seeds=range(6, 11)), seen=5)
    small = compared(effects(0.0, 0.4), first=6)
    assert only(claims, small, planned=Plan(10))["verdict"] == "negligible"
    found = only(replace(claims, seen=6), small, planned=Plan(10))
    assert found["verdict"] == "undecided" and "post hoc" in found["evidence"]


def test_planned_seeds_alone_count_and_all_of_them() -> None:
    runs = compared(effects(3.0, 1.0), first=1)
    further = compared(effects(-30.0, 1.0), first=6)
    assert only(artifact(direction()), runs + further, planned=Plan(5))["verdict"] == "reproduced"
    assert only(artifact(direction()), runs, planned=Plan(6))["setting"] == "undecided"


def test_two_planned_looks_share_the_level() -> None:
    claims = artifact(direction(), looks=(5, 10))
    first = compared(effects(3.0, 2.6), first=1)  # 95 %: from 0.4; 97.5 %: from -0.3
    assert only(artifact(direction()), first, planned=Plan(5))["setting"] == "holds"
    found = only(claims, first, planned=Plan(10))
    assert (found["setting"], found["alpha"], found["look"], found["level"]) == ("undecided", 0.025, 1, 0.975)
    small = compared(effects(0.0, 1.1), first=1)  # 90 %: ± 0.84; 95 %: ± 1.1
    assert only(artifact(direction()), small, planned=Plan(5))["setting"] == "negligible"
    assert only(claims, small, planned=Plan(10))["setting"] == "undecided"
    more = compared(effects(3.0, 2.6), first=6)
    between = only(claims, first + more[:6], planned=Plan(10))  # eight seeds: still the first look's five
    assert (between["look"], between["n"]) == (1, 5)
    second = only(claims, first + more, planned=Plan(10))
    assert (second["setting"], second["alpha"], second["look"], second["n"]) == ("holds", 0.025, 2, 10)


def test_a_second_look_that_was_not_planned() -> None:
    claims = artifact(direction(), added=(5, 10))
    small = compared(effects(0.0, 0.4), first=1)
    assert only(claims, small, planned=Plan(10))["setting"] == "negligible"  # the first was
    found = only(claims, small + compared(effects(0.1, 0.4), first=6), planned=Plan(10))
    assert (found["setting"], found["alpha"]) == ("undecided", 0.025) and "not planned" in found["evidence"]
    fewer = only(claims, small, planned=Plan(5))  # no seeds are planned beyond the first look: there was no second
    assert (fewer["setting"], fewer["look"]) == ("negligible", 1)
    large = compared(effects(3.0, 1.0), first=1) + compared(effects(3.1, 1.0), first=6)
    assert only(claims, large, planned=Plan(10))["setting"] == "holds"


# --- the best evaluation ----------------------------------------------------------------------------------------------


def test_the_evaluation_before_training_is_never_the_best() -> None:
    run = RunRecord("r", "x/fig", "ln", 1, "done", 2, steps=20, records=[
        {"epoch": epoch, "step": 10 * epoch, "split": split, "mode": "eval", "nll": nll + (split == "test")}
        for split in ("valid", "test") for epoch, nll in enumerate((0.1, 0.7, 0.5))
    ])  # fmt: skip
    assert best_step(run) == 20
    assert at_epoch(run, "test", "nll", "best") == 1.5
    assert area([(0, 9.0), (1, 0.7), (2, 0.5)], log=True) == pytest.approx(math.sqrt(0.35))
    assert best_step(replace(run, records=[r for r in run.records if not r["step"]])) is None


# --- the published claims say what the papers say ---------------------------------------------------------------------

EXPECTED = {  # part by part: whether the first cell named is to lie above (+) the second, or below
    "bln2022/ablation": {"BLN-5": "++", "BLN-18": "-", "BLN-19": "-", "BLN-A2": "-", "BLN-X2": "-+--+-"},
    "bln2022/fig4": {"BLN-1": "--", "BLN-2": "--", "BLN-4": "----"},
    "bln2022/fig6": {
        "BLN-6": "----", "BLN-7a": "----", "BLN-7b": "----", "BLN-7c": "----", "BLN-7d": "----", "BLN-8a": "--",
        "BLN-8b": "--", "BLN-8c": "--", "BLN-8d": "--", "BLN-18b": "+",
    },
    "bln2022/table1": {
        "BLN-9": "---", "BLN-10": "++", "BLN-22": "-", "BLN-23": "+", "BLN-12": "++", "BLN-13": "++", "BLN-14": "++",
        "BLN-17": "-+", "BLN-X3": "--",
    },
    "bln2022/table2": {"BLN-11": "++", "BLN-13b": "++", "BLN-14b": "++", "BLN-16": "--", "BLN-17b": "+-"},
    "ln2016/dynamics": {"LN-H1": "++", "LN-H1b": "++"},
    "ln2016/fig6": {"LN-F1": "-", "LN-F1b": "-", "LN-F2": "--", "LN-F3": "++"},
    "ln2016/online": {"LN-H6": "---"},
    "ln2016/recall": {"LN-H4": "----", "LN-H5": "--"},
}  # fmt: skip


@pytest.mark.parametrize("name", EXPECTED)
def test_published_claims_expect_what_their_sentences_say(name: str) -> None:
    claims = {claim.id: claim for claim in load(artifacts.HERE / f"{name}.yaml").claims}
    for claim, signs in EXPECTED[name].items():
        found = "".join({"negative": "-", "positive": "+"}[part.expect or ""] for part in claims[claim].parts)
        assert found == signs, claim


@pytest.mark.parametrize("claim", ["BLN-1", "BLN-2"])
def test_published_orders_are_those_of_the_sentence_and_of_the_authors_logs(claim: str) -> None:
    """From their statement, and from what the authors' own runs logged."""
    fig4 = load(artifacts.HERE / "bln2022" / "fig4.yaml")
    (found,) = [c for c in fig4.claims if c.id == claim]
    batch = int(found.statement.split(":")[0].removeprefix("batch "))
    stated = found.statement.partition("training loss ")[2].lower().split(" < ")
    pairs = [[cell["arm"] for _, cell in part.contrast] for part in found.parts]
    assert pairs == [[low, high] for low, high in pairwise(stated)]
    for part, (low, high) in zip(found.parts, pairs, strict=True):
        assert [cell["train.batch_size"] for _, cell in part.contrast] == [batch, batch]
        logs = fig4.reference["histories"]
        theirs = [sum(map(log_floored, logs[arm][batch]["train_loss"])) for arm in (low, high)]
        weights = [weight for weight, _ in part.contrast]
        assert (weights[0] * theirs[0] + weights[1] * theirs[1] < 0) == (part.expect == "negative")


# --- hashes -----------------------------------------------------------------------------------------------------------


def test_the_hash_of_the_rules_changes_with_each_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    before = rules.sha256("claims", 5)
    assert before == rules.sha256("claims", 5) != rules.sha256("claims", 6)
    for changed in ({"alpha": 0.1}, {"version": 99}, {"smallest_effects": []}):
        monkeypatch.setattr(rules, "RULES", {**rules.RULES, **changed})
        assert rules.sha256("claims", 5) != before
        monkeypatch.undo()


# --- builders ---------------------------------------------------------------------------------------------------------


def artifact(*parts: Part, kind: str = "direction", open: Sequence[str] = (), **more: Any) -> Artifact:
    values: dict[str, Any] = {"reported": (), "controls": ("lr-low", "lr-high") if open else (), "not_decidable": ""}
    claim = Claim("C1", kind, "s", "q", "l", parts=parts, open=tuple(open), **{**values, **more})
    return Artifact("x/fig", "t", "l", "x/fig", 5, {"paper": ["d"]}, {}, (), (claim,), "a" * 64)


def final_run(arm: str, seed: int, value: float, **more: Any) -> RunRecord:
    records = [
        {"epoch": epoch, "step": 10 * epoch, "split": "test", "mode": "eval", "error": error}
        for epoch, error in ((0, 1.0), (3, value))
    ]
    name = f"{arm}-{seed}-{more.get('control', '')}"
    return RunRecord(name, "x/fig", arm, seed, "done", 3, **{"records": records, **more})


def compared(values: Sequence[float], first: int = 1, **more: Any) -> list[RunRecord]:
    """Runs of ln and bn whose difference is that, seed by seed."""
    runs = []
    for seed, value in enumerate(values, first):
        runs += [final_run("bn", seed, 10.0 + seed % 3, **more), final_run("ln", seed, 10.0 + seed % 3 + value, **more)]
    return runs


def only(claims: Artifact, runs: Sequence[RunRecord], fidelity: str = "paper", **more: Any) -> dict[str, Any]:
    (claim,) = verdicts.judge(claims, runs, fidelity, **more)["claims"]
    assert "\n" not in claim["evidence"]
    return dict(claim)


def claim_data(kind: str, *parts: Any, experiment: str = "x/fig", **more: Any) -> dict[str, Any]:
    texts = {"statement": "s", "quote": "q", "locator": "l"}
    claims = [{"id": "C1", "kind": kind, **texts, "parts": list(parts), **more}]
    place = {"id": "fig", "title": "t", "locator": "l", "experiment": experiment, "seeds": 5}
    return {**place, "deviations": {"paper": ["d"]}, "claims": claims}


def fig6_part(name: str, **more: Any) -> dict[str, Any]:
    end = {"kind": "final", "split": "test", "mode": "eval", "metric": "error"}
    contrast = [[weight, {"arm": arm, "train.batch_size": 128}] for weight, arm in ((1, "ln"), (-1, "bn"))]
    return {"id": name, "endpoint": end, "contrast": contrast, "scale": "percent", "unit": "points", **more}


def written(folder: Path, data: Any) -> Path:
    path = folder / "fig.yaml"
    path.write_text(yaml.safe_dump(data), encoding="utf-8")
    return path
