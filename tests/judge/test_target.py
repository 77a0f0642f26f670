"""An arm against a number: the words of scipy's tests, and nothing that did not reach it counts as if it had."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from normbench.errors import NormbenchError
from normbench.judge import ci
from normbench.judge.verdicts import judge
from normbench.papers import describe, rules
from normbench.papers.claims import built
from normbench.papers.decide import Verdict
from normbench.papers.page import PartText
from normbench.runs import imported
from normbench.runs.curve import Curve
from normbench.runs.run import Run
from normbench.stats.looks import level_at
from normbench.stats.statistics import seeds_needed

FINAL: dict[str, Any] = {"kind": "final", "split": "valid", "metric": "loss"}
TIME = FINAL | {"kind": "time_to_level", "level": 1.0, "clock": "step"}
BY_SIGNS = {"endpoint": TIME, "test": "sign", "unit": "updates"}


def run(seed: int, steps: Sequence[float], loss: Sequence[Any], lost: bool = False, **metric: Any) -> Run:
    curve = Curve.of_columns([{"split": "valid", "mode": "logged", "columns": {"step": [*steps], "loss": [*loss]}}])
    facts: dict[str, Any] = {"metrics": {"loss": {"goal": "min"} | metric}, "about": {"clocks": ["step"]}}
    facts |= {"diverged": "loss ends without a number"} if lost else {}
    return imported.record("x", f"mine/{seed}", "mine", seed, curve, int(steps[-1]), **facts)


def ends(values: Sequence[float], **metric: Any) -> list[Run]:
    """Runs that end with these losses."""
    return [run(seed, [0, 50, 100], [9.0, 5.0, value], **metric) for seed, value in enumerate(values, 1)]


def falling(seed: int, time: float, last: float = 100, **given: Any) -> Run:
    """A loss that falls in a straight line to 1 at this time, and is logged up to `last`."""
    steps = [step for step in range(0, 101, 10) if step <= last]
    return run(seed, steps, [1 + (time - step) / 20 for step in steps], **given)


def part(than: float, **keys: Any) -> dict[str, Any]:
    base = {"id": "p", "endpoint": FINAL, "contrast": [[1, {"arm": "mine"}]], "scale": "linear", "unit": "nats"}
    return base | {"expect": "negative", "than": than} | keys


def judged(runs: Sequence[Run], than: float, **keys: Any) -> Verdict:
    entry = {"id": "C1", "kind": "direction", "statement": "s", "parts": [part(than, **keys)]}
    (verdict,) = judge(built({"claims": [entry]}, Path("claims.yaml")), runs)
    return verdict


def word_of(p_holds: float, p_fails: float) -> str:
    return "holds" if p_holds <= 0.025 else "fails" if p_fails <= 0.025 else "undecided"


def test_a_mean_against_a_number_is_scipys_t_test() -> None:
    rng, words = np.random.default_rng(1), []
    for _ in range(200):
        n, scale = int(rng.integers(5, 13)), str(rng.choice(["linear", "log"]))
        values = rng.lognormal(0.2 * rng.normal(), rng.uniform(0.05, 0.6), n)
        numbers, than = (np.log(values), 0.0) if scale == "log" else (values, 1.0)
        below, above = (stats.ttest_1samp(numbers, than, alternative=side) for side in ("less", "greater"))
        verdict = judged(ends(values.tolist()), 1.0, scale=scale)
        low, high = stats.ttest_1samp(numbers, than).confidence_interval(0.95)
        assert verdict.interval == pytest.approx((low - than, high - than), rel=1e-9)
        assert verdict.effect == pytest.approx(numbers.mean() - than, rel=1e-9) and verdict.n == n
        assert verdict.word == word_of(below.pvalue, above.pvalue)
        words.append(verdict.word)
    assert min(map(words.count, ("holds", "fails", "undecided"))) > 20


def test_a_time_against_a_number_is_scipys_binomial_test() -> None:
    """Runs end where they have reached the level; those that never do are logged to the last step."""
    rng, words = np.random.default_rng(2), []
    for _ in range(200):
        n, than = int(rng.integers(6, 13)), float(rng.choice([30, 61, 100]))
        times = rng.uniform(0, rng.choice([50, 100, 250]), n) + rng.choice([0, 40])
        runs = [falling(seed, time, 10 * np.ceil(time / 10)) for seed, time in enumerate(times.tolist())]
        curves = [[dict(record) for record in each.records] for each in runs]
        reached = [np.interp(-1, [-r["loss"] for r in c], [r["step"] for r in c], right=np.inf) for c in curves]
        sides = [int(np.sum(np.less(reached, than))), int(np.sum(np.greater(reached, than)))]
        p_values = [stats.binomtest(count, n, 0.5, alternative="greater").pvalue for count in sides]
        verdict = judged(runs, than, **BY_SIGNS)
        assert verdict.word == word_of(*p_values) and verdict.n == n
        words.append(verdict.word)
    assert min(map(words.count, ("holds", "fails", "undecided"))) > 20


@pytest.mark.parametrize("lost", [1, 3])
def test_a_run_that_diverged_reaches_no_number(lost) -> None:
    gone = [run(90 + k, [0, 10], [9.0, "NaN"], lost=True) for k in range(lost)]
    verdict = judged([*ends([0.5 + k / 100 for k in range(9)]), *gone], 1.0)
    assert (verdict.word, verdict.reason, verdict.diverged) == ("undecided", "diverged", True)
    assert verdict.n == 9 + lost and f"{lost} of {9 + lost} runs" in (verdict.compared or "")
    assert ci.failing(verdict, ["diverged"]) == "diverged"


@pytest.mark.parametrize(("sooner", "word"), [(5, "undecided"), (9, "holds")])
def test_a_run_that_diverged_after_it_had_reached_the_level_is_later(sooner, word) -> None:
    gone = run(90, [0, 10, 20], [9.0, 0.5, "NaN"], lost=True)
    verdict = judged([*(falling(seed, 50 + seed) for seed in range(sooner)), gone], 90, **BY_SIGNS)
    assert verdict.word == word and verdict.diverged and ci.failing(verdict, ["diverged"])
    assert verdict.parts[0].sign_test and verdict.parts[0].sign_test["above"] == 1
    assert verdict.parts[0].cells[0]["values"][-1] == "diverged"


@pytest.mark.parametrize("lost", [1, 4])
def test_a_run_that_ends_early_hides_none_that_diverged(lost) -> None:
    values = [0.5 + seed / 100 for seed in range(8)]
    runs = [run(0, [0, 50, 90], [9, 5, 0.5])]
    runs += [run(k, [0, 50, 90, 100], [9, 5, values[k], "NaN"], lost=True) for k in range(1, lost + 1)]
    runs += [run(k, [0, 50, 90, 100], [9, 5, values[k], 0.4]) for k in range(lost + 1, 8)]
    entry = {"id": "C1", "kind": "direction", "statement": "s", "parts": [part(1.0)]}
    (verdict,) = judge(built({"claims": [entry], "length": "common"}, Path("claims.yaml")), runs)
    assert verdict.word == "undecided" and ci.failing(verdict, ["diverged"]) == "diverged"
    assert f"{lost} of 8 runs" in (verdict.compared or "")


@pytest.mark.parametrize(("ties", "early", "word"), [(0, 0, "holds"), (2, 0, "undecided"), (0, 2, "undecided")])
def test_the_p_of_signs_is_that_which_decides(ties, early, word) -> None:
    """A tie, and a run of which nobody knows, speak for neither side: p counts them against both, as the interval."""
    late = run(90, [0, 50, 100], [9, 5, 3])
    runs = [*(falling(seed, 50 + seed) for seed in range(8)), late]
    runs += [run(30 + k, [0, 90, 100], [9 + k, 1, 0.5]) for k in range(ties)]
    runs += [run(60 + k, [0, 50], [9 + k, 5]) for k in range(early)]
    verdict = judged(runs, 90, **BY_SIGNS)
    p = stats.binomtest(8, 9 + ties + early, 0.5).pvalue
    assert verdict.word == word == ("holds" if p < 0.05 else "undecided")
    assert verdict.parts[0].sign_test == {"above": 1, "below": 8, "p": pytest.approx(p)}
    nobody = judged([run(k, [0, 50], [9 + k, 5]) for k in range(7)], 90, **BY_SIGNS)
    assert nobody.parts[0].sign_test == {"above": 0, "below": 0, "p": 1}


def test_the_sign_test_says_how_many_seeds_the_level_of_a_look_needs() -> None:
    entry = {"id": "C1", "kind": "direction", "statement": "s", "parts": [part(90, **BY_SIGNS)]}
    planned = built({"claims": [entry], "looks": [6, 1000]}, Path("claims.yaml"))
    (verdict,) = judge(planned, [falling(seed, 50 + seed) for seed in range(6)])
    (least,) = map(int, verdict.parts[0].about)
    level = level_at(6, (6, 1000), 0.05, "obrien-fleming")
    assert 2 * 0.5**least <= level < 2 * 0.5 ** (least - 1) and f"at least {least} seeds" in verdict.answer


@pytest.mark.parametrize("cell", [{}, {"task": "easy"}], ids=str)
def test_an_answer_about_runs_without_an_arm_has_a_subject(cell) -> None:
    runs = [replace(each, axes={"task": "easy"}) for each in ends([0.5 + k / 100 for k in range(8)])]
    assert judged(runs, 1.0, contrast=[[1, cell]]).answer.startswith("any run is 0.46 nats better than 1 in final")


def test_what_never_reaches_its_level_is_later_than_any_number_up_to_its_end() -> None:
    never = [falling(seed, 150 + seed) for seed in range(6)]
    for than in (40, 100):
        verdict = judged(never, than, **BY_SIGNS)
        assert verdict.word == "fails" and verdict.parts[0].censored == 6
    verdict = judged(never, 101, **BY_SIGNS)
    assert verdict.word == "undecided" and verdict.parts[0].why == "ended early" and "before 101" in verdict.answer
    assert ci.failing(verdict, ["incomplete"]) == "incomplete"
    reached = [falling(seed, 50 + seed) for seed in range(10, 22)]
    assert judged([*reached, never[0]], 101, **BY_SIGNS).word == "holds", "at worst one of 13 is later"


@pytest.mark.parametrize("expect", ["negative", "positive"])
def test_a_number_before_the_first_point_of_a_run_at_its_level_is_refused(expect) -> None:
    runs = [*(falling(seed, 50 + seed) for seed in range(7)), run(9, [50, 100], [0.9, 0.5])]
    with pytest.raises(NormbenchError, match="first point"):
        judged(runs, 40, **BY_SIGNS | {"expect": expect})
    assert judged(runs, 50, **BY_SIGNS).word == "undecided", "one of them is no later"
    later = [run(seed, [50, 100], [1.1 + seed / 100, 0.5]) for seed in range(7)]
    assert judged(later, 40, **BY_SIGNS).word == "fails", "at their first point none is there"


def test_few_seeds_give_no_word_and_the_answer_says_how_many_would() -> None:
    verdict = judged(ends([0.5, 0.51, 0.52, 0.53]), 1.0)
    assert verdict.word == "undecided" and "below 5 seeds" in verdict.answer and verdict.suggestion is None
    verdict = judged([falling(seed, 50 + seed) for seed in range(5)], 90, **BY_SIGNS)
    assert verdict.word == "undecided" and "at least 6 seeds" in verdict.answer
    assert verdict.suggestion and verdict.suggestion.seeds == 6
    assert ci.failing(verdict, ["incomplete"]) == "incomplete"


def test_the_seeds_that_would_decide_are_suggested() -> None:
    values = [0.9, 1.05, 0.95, 1.1, 0.8, 0.97]
    verdict = judged(ends(values), 1.0)
    effect, sd = float(np.mean(values)) - 1, float(np.std(values, ddof=1))
    assert verdict.word == "undecided" and verdict.suggestion
    assert verdict.suggestion.seeds == seeds_needed(effect, sd) and "fresh seeds" in describe.suggestion(verdict)
    alike = judged([run(seed, [0, 50, 100], [9.0, 5.0 + seed, 0.9]) for seed in range(6)], 1.0)
    assert alike.word == "undecided" and alike.parts[0].why == "alike" and alike.suggestion is None


def test_the_answer_names_the_number_and_the_side() -> None:
    verdict = judged(ends([0.5 + k / 100 for k in range(8)]), 1.0)
    assert (
        verdict.answer.startswith("mine is 0.46 nats better than 1 in final valid loss [") and "n = 8" in verdict.answer
    )
    assert verdict.parts[0].than == 1.0 and "negligible" not in PartText.of(verdict.parts[0]).rule
    higher = judged(ends([0.5 + k / 100 for k in range(8)], goal=None), 1.0, expect="positive")
    assert higher.word == "fails" and "0.46 nats lower than 1" in higher.answer
    ratio = judged(ends([0.5 + k / 100 for k in range(8)]), 1.0, scale="log")
    assert "of mine is 0.53 times 1 " in ratio.answer
    verdict = judged([falling(seed, 50 + seed) for seed in range(8)], 90, **BY_SIGNS)
    assert "in the median 36 updates sooner than 90 at valid loss 1" in verdict.answer


def test_the_number_is_in_the_unit_of_the_logs() -> None:
    verdict = judged(ends([0.05 + k / 1000 for k in range(8)], unit="fraction"), 0.06, scale="percent", unit="points")
    assert verdict.word == "holds" and verdict.effect == pytest.approx(-0.65) and "better than 6 % in" in verdict.answer


def test_an_arm_without_runs_is_untested() -> None:
    verdict = judged(ends([0.5, 0.6]), 1.0, contrast=[[1, {"arm": "other"}]])
    assert verdict.verdict == "untested (not run)"


@pytest.mark.parametrize("size", [1e-300, 1e-320])
def test_a_spread_too_small_to_be_squared_decides_nothing(size) -> None:
    verdict = judged(ends([size * (1 + seed) for seed in range(6)]), 10 * size)
    assert verdict.word == "undecided" and verdict.parts[0].why == "alike"


@pytest.mark.parametrize("loss", [float("inf"), float("-inf"), float("nan")], ids=str)
def test_what_is_not_finite_at_the_end_holds_nothing(loss) -> None:
    assert judged(ends([0.5, 0.51, 0.52, 0.53, 0.54, 0.55, loss]), 1.0).word == "undecided"


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"contrast": [[1, {"arm": "mine"}], [-1, {"arm": "b"}]]}, "contrast"),
        ({"contrast": [[2, {"arm": "mine"}]]}, "contrast"),
        ({"endpoint": TIME}, "test: sign"),
        ({"scale": "log", "than": -1.0}, "logarithm"),
        ({"delta": {"is": 0.1, "why": "w"}}, "delta"),
        ({"than": float("nan")}, "than"),
        ({"than": float("inf")}, "than"),
        ({"than": "low"}, "than"),
    ],
    ids=lambda case: case if isinstance(case, str) else "",
)
def test_a_part_that_says_something_else_is_refused(keys, named) -> None:
    with pytest.raises(NormbenchError, match=named) as error:
        judged(ends([0.5, 0.6]), **({"than": 1.0} | keys))
    assert error.value.code == 2


def test_a_margin_has_no_number_in_the_place_of_an_arm() -> None:
    entry = {"id": "C1", "kind": "no_worse", "statement": "s", "parts": [part(1.0, within=0.1)]}
    with pytest.raises(NormbenchError, match="'expect' is not a key"):
        built({"claims": [entry]}, Path("claims.yaml"))


def test_no_effect_is_too_small_for_a_side_of_a_number() -> None:
    error = FINAL | {"metric": "error"}
    parts = [part(0.1, endpoint=error, scale="percent", unit="points"), part(0.1, endpoint=error, scale="percent")]
    del parts[1]["than"]
    entry = {"id": "C1", "kind": "direction", "statement": "s", "parts": [parts[0], parts[1] | {"id": "q"}]}
    of_number, of_zero = built({"claims": [entry]}, Path("claims.yaml")).claims[0].parts
    assert rules.smallest_effect(of_zero, "mnist") == 0.1 and rules.smallest_effect(of_number, "mnist") is None
    rules.check_smallest_effect(of_number, None, "claims.yaml")
