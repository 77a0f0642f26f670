"""The rules sentence by sentence: parts, claims, controls, verdicts; how often they err is in `test_error_rates`."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from judged import artifact, final_run, only
from ruled import SHAPE, UNIT, claim_data, claim_of, compared, direction, effects, seen, word, written

from normbench.papers import rules
from normbench.papers.claims import Delta, Looks, load
from normbench.papers.parts import Observed, result
from normbench.stats.looks import level_at
from normbench.stats.statistics import t_interval

# --- a direction -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mean", "half", "expected"),
    [
        (1.5, 1.0, "holds"),
        (1.5, 1.6, "undecided"),
        (-1.5, 1.0, "fails"),
        (0.0, 1.2, "negligible"),  # 90 %: ± 0.92
        (0.0, 1.4, "undecided"),  # 90 %: ± 1.07
        (0.5, 0.4, "negligible"),  # surely positive, and surely small: small comes first
        (-0.5, 0.4, "negligible"),
        (0.5, 0.7, "undecided"),  # 90 %: up to 1.04; 95 %: from -0.2
        (0.8, 0.4, "holds"),  # 90 %: up to 1.1
        (-0.8, 0.4, "fails"),
    ],
)
def test_a_direction_is_first_negligible_then_has_a_side(mean: float, half: float, expected: str) -> None:
    assert word(effects(mean, half), delta=1.0) == expected
    mirrored = {"holds": "fails", "fails": "holds"}.get(expected, expected)
    assert word(effects(mean, half), delta=1.0, part=direction(expect="negative")) == mirrored


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
        assert result(seen(direction(), effects(mean, 0.4), 1.0, fresh=False), "undecided").why == "seen seeds"
    assert word(effects(1.5, 1.0), delta=1.0, fresh=False) == "holds"
    assert word(effects(-1.5, 1.0), delta=1.0, fresh=False) == "fails"


@pytest.mark.parametrize("test", ["t", "sign"])
def test_at_a_look_an_effect_is_tested_at_its_level_and_elsewhere_there_is_no_word(test: str) -> None:
    part, values = direction(test=test), [float(value) for value in range(1, 21)]
    for n in range(5, 21):
        observed = seen(part, values[:n], looks=Looks((8, 20), "pocock"), complete=n in (8, 20))
        assert rules.part_word(observed) == ("holds" if n in (8, 20) else "undecided")
        assert observed.look == {8: 1, 20: 2}.get(n, 0)
        level = level_at(n, (8, 20), 0.05, "pocock") if n in (8, 20) else 0
        assert observed.at_look(0.05) == level < 0.05
        assert result(observed, "holds").interval == (observed.interval(1 - level) if level else None)
    weak = seen(direction(), effects(1.05, 1.0), looks=Looks((5, 20)))  # just significant at 5 %, once
    assert rules.part_word(replace(weak, looks=None)) == "holds" and rules.part_word(weak) == "undecided"


def test_a_look_so_early_that_no_test_can_decide_has_no_interval() -> None:
    early = seen(direction(), effects(100.0, 1.0), looks=Looks((5, 200)))
    entry = result(early, rules.part_word(early))
    assert entry.word == "undecided" and entry.interval is None and entry.detectable is None


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
    found = only(artifact(direction(scale="percent", delta=Delta(0.1, "w"))), runs)
    assert 0 < found.parts[0].sd < 1e-12  # one example of 625 in every seed
    assert (found.verdict, found.robustness) == ("undecided", "")
    assert found.parts[0].why == "alike"


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
    assert result(seen(signed, censored, 0.1), "undecided").why == "censored"


# --- an equivalence, a size, an order, an exact number ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("mean", "half", "expected"),
    [
        (0.0, 1.2, "holds"),
        (0.0, 1.4, "undecided"),
        (0.6, 0.5, "holds"),
        (2.5, 1.4, "fails"),
        (-2.5, 1.4, "fails"),
        (2.5, 1.6, "undecided"),
    ],
)
def test_an_equivalence_has_its_own_margin(mean: float, half: float, expected: str) -> None:
    assert word(effects(mean, half), part=direction(kind="equivalence", expect=None, within=1.0)) == expected
    wider = direction(kind="equivalence", expect=None, within=9.0)
    assert word(effects(mean, half), part=wider) == "holds"


@pytest.mark.parametrize(
    ("mean", "half", "better", "expected"),
    [
        (0.0, 1.2, "lower", "holds"),
        (0.0, 1.4, "lower", "undecided"),
        (-2.5, 1.4, "lower", "holds"),
        (2.5, 1.4, "lower", "fails"),
        (2.5, 1.6, "lower", "undecided"),
        (-2.5, 1.4, "higher", "fails"),
        (2.5, 9.0, "higher", "undecided"),
        (2.5, 3.0, "higher", "holds"),
    ],
)
def test_no_worse_has_a_margin_on_one_side(mean: float, half: float, better: str, expected: str) -> None:
    part = direction(kind="no_worse", expect=None, within=1.0)
    part = replace(part, endpoint=replace(part.endpoint, better=better))
    assert word(effects(mean, half), part=part) == expected


@pytest.mark.parametrize(
    ("paper", "band", "expected"),
    [
        (0.0, 2.5, "holds"),  # prediction interval ± 2.45
        (0.0, 2.4, "undecided"),  # our runs vary by more than the band
        (1.0, 3.5, "holds"),
        (1.0, 3.4, "undecided"),  # one of our runs could lie 3.45 below
        (2.5, 9.0, "fails"),
        (-2.5, 9.0, "fails"),
    ],
)
def test_a_size_is_held_against_the_spread_of_single_runs(paper: float, band: float, expected: str) -> None:
    part = direction(kind="size", expect=None, paper=paper, band=band)
    assert word(effects(0.0, 1.0), part=part) == expected  # ± 1 · √6 = ± 2.449


def test_a_size_of_several_differs_by_a_wider_interval() -> None:
    one = direction(kind="size", expect=None, paper=3.0, band=9.0)
    other = replace(one, paper=0.0)
    values = effects(0.0, 1.0)
    assert word(values, part=one) == "fails"
    assert rules.claim_word([seen(one, values)]) == "fails"
    assert rules.claim_word([seen(one, values), seen(other, values)]) == "undecided"  # ± 3.08 of two
    far = replace(one, paper=3.2)
    assert rules.claim_word([seen(far, values), seen(other, values)]) == "fails"


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

    assert verdict(cells).word == "holds"
    assert verdict(cells[::-1]).word == "fails"
    swapped = verdict([cells[0], cells[2], cells[1]])
    assert [part.word for part in swapped.parts] == ["holds", "fails"] and swapped.word == "fails"


# --- a claim of k parts ----------------------------------------------------------------------------------------------

SURE, SMALL, OPEN, AGAINST = ((5.0, 0.4), 1.0), ((0.0, 0.4), 1.0), ((0.5, 5.0), 1.0), ((-5.0, 0.4), 1.0)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([SURE, SURE], "holds"),
        ([SURE, OPEN], "undecided"),
        ([SURE, SMALL], "negligible"),
        ([OPEN, SMALL], "negligible"),
        ([SURE, AGAINST], "fails"),
        ([OPEN, AGAINST], "fails"),
        ([SMALL, AGAINST], "fails"),
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
    assert claim_of(*[sure] * (k - 1), (effects(-3.0, 2.9 / width), 1.0)) == "fails"
    assert claim_of(*[sure] * (k - 1), (effects(-3.0, 3.1 / width), 1.0)) == "undecided"
    assert word(effects(-3.0, 3.1 / width), 1.0) == "fails"  # by itself
    width = (t_interval(SHAPE, 1 - 2 * 0.05 / k).interval or (0, 0))[1] / UNIT
    assert claim_of(*[sure] * (k - 1), (effects(0.0, 0.95 / width), 1.0)) == "negligible"
    assert claim_of(*[sure] * (k - 1), (effects(0.0, 1.05 / width), 1.0)) == "undecided"
    assert word(effects(0.0, 1.05 / width), 1.0) == "negligible"


def test_what_is_small_at_the_claims_level_opposes_at_no_level() -> None:
    small = effects(-0.6, 0.45)  # 90 %: down to -0.95; 99.2 %: from -1.4 to 0.2, 97.5 %: -1.17 to -0.03
    assert word(small, 1.0) == "negligible"
    parts = [seen(direction(), values, 1.0) for values in (effects(5.0, 0.4), small)]
    assert rules.part_word(parts[1], rules.ALPHA / 2) == "fails"  # asked alone, without what the claim's level says
    assert rules.claim_word(parts) == "undecided" and not rules.opposes(parts[1], 2)
    # Under one of two controls too, where it would make the word one that depends.
    own, strict = rules.control_words(parts[1:], 2)
    assert (own, strict) == ("negligible", "undecided")
    assert rules.robustness("negligible", [(own, strict)] * 2) == "agree"


def test_only_a_direction_makes_a_claim_negligible() -> None:
    equal = direction(kind="equivalence", expect=None, within=1.0)
    sure = direction()
    pair = [seen(equal, effects(0.0, 5.0), 1.0), seen(sure, effects(5.0, 0.4), 1.0)]
    assert rules.claim_word(pair) == "undecided"


def test_a_part_that_was_not_run_comes_before_one_that_is_not_decidable() -> None:
    gaps = [Observed(part=direction(), gap=gap) for gap in ("not run", "not decidable here")]
    sure = [seen(direction(), effects(5.0, 0.4))]
    for parts in (gaps, gaps[::-1], sure + gaps, gaps[::-1] + sure):
        assert rules.claim_word(parts) == "not run"
    assert rules.claim_word(sure + gaps[1:]) == "not decidable here"


# --- controls, and the verdict ---------------------------------------------------------------------------------------

H, F, N, U, R = "holds", "fails", "negligible", "undecided", "not run"


@pytest.mark.parametrize(
    ("setting", "controls", "expected"),
    [
        (H, [(H, H), (H, U)], "agree"),
        (H, [(H, H), (F, F)], "depend"),
        (H, [(N, N), (R, R)], "depend"),
        (H, [(H, H), (F, U)], "undecided"),  # another word, but not at the level of one of two
        (H, [(H, H), (U, U)], "undecided"),
        (H, [(H, H), (R, R)], "not run"),
        (F, [(F, F), (H, H)], "depend"),
        (N, [(N, N), (N, U)], "agree"),
        (N, [(N, N), (H, H)], "depend"),
        (H, [], "nothing open"),
        (U, [(H, H), (F, F)], ""),
    ],
)
def test_controls_agree_where_every_one_has_the_same_word(setting: str, controls: Any, expected: str) -> None:
    assert rules.robustness(setting, controls) == expected
    assert rules.robustness(setting, controls[::-1]) == expected


def test_what_no_control_varies_keeps_a_word_from_being_robust() -> None:
    assert rules.robustness(H, [(H, H), (H, H)], unvaried=True) == "not run"
    assert rules.robustness(H, [(H, H), (F, F)], unvaried=True) == "depend"
    assert rules.robustness(H, [(H, H), (U, U)], unvaried=True) == "undecided"
    assert rules.robustness(U, [(H, H)], unvaried=True) == ""


def test_a_control_whose_runs_cannot_tell_is_not_one_without_runs() -> None:
    sure = seen(direction(), effects(5.0, 0.4))
    gaps = [Observed(part=direction(), gap=gap) for gap in ("not run", "not decidable here")]
    assert rules.control_words([sure, gaps[0]], 2) == ("not run", "not run")
    assert rules.control_words([sure, gaps[1]], 2) == ("not decidable here", "not decidable here")
    assert rules.robustness(H, [(H, H), ("not decidable here",) * 2]) == "undecided"


def test_small_here_and_signed_there_is_no_other_word_unless_it_is_surely_larger() -> None:
    claims = artifact(direction(delta=Delta(1.0, "w")), open=("rate",))
    signed, small = compared(effects(1.2, 0.5)), effects(0.5, 0.4)  # from 0.7, and up to 0.8: they may be the same
    controls = [run for name in ("lr-low", "lr-high") for run in compared(small, control=name)]
    found = only(claims, signed + controls)
    assert (found.word, found.robustness) == ("holds", "undecided")
    assert only(claims, compared(effects(3.0, 0.5)) + controls).robustness == "depend"


def test_small_at_the_papers_setting_is_another_word_where_a_control_is_surely_larger() -> None:
    claims = artifact(direction(delta=Delta(1.0, "w")), open=("rate",))
    same = compared(effects(0.2, 0.4), control="lr-low")
    for mean, robust in ((3.0, "depend"), (-3.0, "depend"), (1.2, "undecided")):  # the last from 0.7, and here to 0.6
        found = only(claims, compared(effects(0.2, 0.4)) + same + compared(effects(mean, 0.5), control="lr-high"))
        assert (found.word, found.robustness) == ("negligible", robust)
    hardly = effects(0.5, 0.55)  # 90 %: up to 0.92; 95 %: 1.05
    own, low, high = compared(hardly), compared(hardly, control="lr-low"), compared(effects(3, 0.5), control="lr-high")
    found = only(claims, own + low + high)
    assert (found.word, found.robustness) == ("negligible", "undecided")


@pytest.mark.parametrize(("controls", "parts"), [(2, 1), (1, 2), (2, 2)])
def test_surely_larger_counts_the_controls_and_the_parts(controls: int, parts: int) -> None:
    """Beyond δ by its 95 % interval is not enough where any one of several comparisons could be beyond by chance."""
    part, sure = direction(), (effects(9.0, 0.4), 1.0)
    small = [seen(part, *found) for found in [(effects(0.0, 0.2), 1.0), *[sure] * (parts - 1)]]
    wider = (t_interval(SHAPE, 1 - 0.05 / (controls * parts)).interval or (0, 0))[1] / UNIT
    for half, expected in ((0.95, "negligible"), (1.05, "undecided")):  # of that interval, around 2 δ
        held = [seen(part, *found) for found in [(effects(2.0, half / wider), 1.0), sure]]
        assert rules.control_words(small, controls, setting=held[:parts]) == ("negligible", expected)


@pytest.mark.parametrize(
    ("word", "basis", "robust", "expected"),
    [
        (H, "paper", "agree", "holds · controls agree"),
        (H, "paper", "nothing open", "holds · nothing open"),
        (F, "exact", "", "fails · exact"),
        (N, "paper", "not run", "negligible · controls not run"),
        (H, "proxy", "undecided", "holds · proxy · controls undecided"),
        (F, "as logged", "", "fails · as logged"),
        (U, "paper", "", "undecided"),
        (U, "smoke", "", "undecided · smoke"),
        (R, "reduced", "", "untested (not run)"),
        ("not decidable here", "proxy", "", "untested (not decidable here)"),
    ],
)
def test_the_words_of_a_verdict(word: str, basis: str, robust: str, expected: str) -> None:
    assert rules.verdict(*rules.split(word), basis, robust) == expected
    assert expected.split(" ")[0] in rules.WORDS
