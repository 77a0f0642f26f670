"""Claims about logged curves: what is no difference of the arms gets no word, and what nobody declared is refused."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from normbench.errors import NormbenchError
from normbench.judge import ci
from normbench.judge.verdicts import judge
from normbench.papers.claims import Artifact, built
from normbench.runs import imported
from normbench.runs.curve import Curve
from normbench.runs.run import Run
from normbench.stats.looks import level_at
from normbench.stats.statistics import holm

SEEDS = range(1, 8)
STEPS = range(0, 101, 10)
FINAL: dict[str, Any] = {"kind": "final", "split": "valid", "metric": "loss"}
AREA = FINAL | {"kind": "area"}
TIME = FINAL | {"kind": "time_to_level", "level": 1.0, "clock": "step"}
BEST = FINAL | {"kind": "chosen", "epoch": "best", "split": "test"}
MONITOR = {"split": "valid", "metric": "loss", "goal": "min"}


def run(arm: str, seed: int, worse: float = 0.0, steps: Sequence[int] = STEPS, lost: bool = False, **given: Any) -> Run:
    """A loss that falls from 8; at equal seeds two arms differ by `worse` and a little noise. lost: it ends in NaN."""
    noise = np.random.default_rng([seed, *arm.encode()]).normal(0, 0.01) + np.random.default_rng(seed).normal(0, 0.02)
    loss: list[Any] = [8 * 2.0 ** (-step / 10) + 0.5 + worse + noise for step in steps]
    loss = [*loss[:-1], "NaN"] if lost else loss
    columns = {"step": [*steps], "loss": loss}
    curve = Curve.of_columns({"split": split, "mode": "logged", "columns": columns} for split in ("test", "valid"))
    facts: dict[str, Any] = {"metrics": {"loss": {"goal": "min"}}, "about": {"clocks": ["step"]}, "monitor": MONITOR}
    facts |= given | ({"diverged": "loss ends without a number"} if lost else {})
    return imported.record("x", f"{arm}/{seed}", arm, seed, curve, steps[-1], **facts)


def of(arm: str, **given: Any) -> Callable[[int], Run]:
    return partial(run, arm, **given)


def arms(a: Callable[[int], Run], b: Callable[[int], Run], seeds: Any = (SEEDS, SEEDS)) -> list[Run]:
    return [*map(a, seeds[0]), *map(b, seeds[1])]


def claim(endpoint: dict[str, Any] = FINAL, kind: str = "direction", id: str = "C1", **part: Any) -> dict[str, Any]:
    """`a` is lower than `b`."""
    part = {"scale": "linear", "unit": "nats", "contrast": [[1, {"arm": "a"}], [-1, {"arm": "b"}]]} | part
    part |= {"expect": "negative"} if kind == "direction" else {}
    return {"id": id, "kind": kind, "statement": "s", "parts": [{"id": "a against b", "endpoint": endpoint, **part}]}


def claims(*entries: dict[str, Any], **keys: Any) -> Artifact:
    return built({"claims": [*entries], **keys}, Path("claims.yaml"))


def word(runs: Sequence[Run], endpoint: dict[str, Any] = FINAL, length: str = "equal") -> str:
    (found,) = judge(claims(claim(endpoint), length=length), runs)
    return str(found.word)


@pytest.mark.parametrize("endpoint", [FINAL, AREA, TIME, BEST], ids=lambda end: end["kind"])
@pytest.mark.parametrize("steps", [STEPS, STEPS[::2], [0, 7, *STEPS[3:]]], ids=["alike", "half as often", "otherwise"])
def test_a_difference_is_found_and_none_is_not(endpoint, steps) -> None:
    for worse, found in {0.0: "undecided", -0.1: "holds", 0.1: "fails"}.items():
        assert word(arms(of("a", worse=worse, steps=steps), of("b")), endpoint) == found


@pytest.mark.parametrize("endpoint", [FINAL, AREA, TIME, BEST], ids=lambda end: end["kind"])
def test_ends_that_differ_are_refused_or_cut_where_the_file_says_so(endpoint) -> None:
    cut = arms(of("a", steps=STEPS[:10]), of("b"))
    one = arms(lambda seed: run("a", seed, steps=STEPS[:10] if seed == 3 else STEPS), of("b"))
    for runs in (cut, one):
        with pytest.raises(NormbenchError, match="length: common"):
            word(runs, endpoint)
        assert word(runs, endpoint, "common") == "undecided"
    better = arms(of("a", worse=-0.1, steps=STEPS[:10]), of("b"))
    assert word(better, endpoint, "common") == "holds"
    far = arms(lambda seed: run("a", seed, -0.1, STEPS[:7] if seed == 3 else STEPS), of("b"))
    (found,) = judge(claims(claim(endpoint), length="common"), far)
    assert found.word == "undecided" and found.parts[0].why == "cut short"
    assert "a seed 3 ends at 60" in found.answer
    begun = arms(lambda seed: run("a", seed, -0.1, STEPS[:1] if seed == 3 else STEPS), of("b"))
    (found,) = judge(claims(claim(endpoint), length="common"), begun)
    assert found.word in ("undecided", "untested") and "a seed 3 ends at 0" in found.answer


def test_a_number_before_the_end_is_not_called_final() -> None:
    runs = arms(lambda seed: run("a", seed, -0.1, STEPS[:10] if seed == 3 else STEPS), of("b"))
    (found,) = judge(claims(claim(), length="common"), runs)
    assert "in valid loss at step 90" in found.answer and "final" not in found.answer
    assert "the last step that all have is 90 of 100" in found.compared


def test_an_arm_is_not_chosen_by_the_numbers_that_are_compared() -> None:
    for endpoint in (BEST | {"split": "valid"}, BEST | {"split": "valid", "epoch": "own"}):
        (found,) = judge(claims(claim(endpoint)), arms(of("a", worse=-0.1), of("b")))
        assert found.reason == "not decidable here" and "chosen on valid" in found.answer


def test_steps_that_are_nowhere_common_decide_nothing() -> None:
    runs = arms(of("a", steps=range(5, 106, 10)), of("b"))
    assert word(runs, AREA, "common") == "untested"


@pytest.mark.parametrize("seeds", [range(0), range(1, 3)], ids=["none shared", "two shared"])
def test_seeds_that_are_not_shared_are_compared_by_welch(seeds) -> None:
    runs = arms(of("a", worse=-0.1), of("b"), (SEEDS, [*seeds, *range(11, 16 - len(seeds))]))
    (found,) = judge(claims(claim()), runs)
    ends = [[dict(record)["loss"] for record in one.records][-1] for one in runs]
    welch = stats.ttest_ind(ends[:7], ends[7:], equal_var=False)
    low, high = welch.confidence_interval(0.95)
    assert found.effect == pytest.approx(np.mean(ends[:7]) - np.mean(ends[7:]), rel=1e-12)
    assert found.interval == pytest.approx((low, high), rel=1e-9)
    assert found.word == "holds" and "Welch" in found.compared
    assert found.parts[0].unpaired == (7, 5)


@pytest.mark.parametrize("seeds", [(SEEDS, SEEDS[:5]), (SEEDS[:5], SEEDS)], ids=["more of a", "more of b"])
def test_runs_without_a_partner_count_and_are_named(seeds) -> None:
    runs = arms(of("a", worse=-0.1), of("b"), seeds)
    (found,) = judge(claims(claim()), runs)
    ends = {arm: [dict(one.records[-1])["loss"] for one in runs if one.arm == arm] for arm in "ab"}
    low, high = stats.ttest_ind(ends["a"], ends["b"], equal_var=False).confidence_interval(0.95)
    assert found.interval == pytest.approx((low, high), rel=1e-9) and found.word == "holds"
    assert f"seeds 6, 7 of arm {'a' if len(seeds[0]) > 5 else 'b'} have no partner" in found.compared
    assert f"n = {len(seeds[0])} against {len(seeds[1])}" in found.answer
    (turned,) = judge(claims(claim(contrast=[[-1, {"arm": "b"}], [1, {"arm": "a"}]])), runs)
    assert turned.answer.split(";")[0] == found.answer.split(";")[0]
    one_more = arms(of("a"), of("b"), (SEEDS, SEEDS[:6]))
    assert "seed 7 of arm a has no partner" in judge(claims(claim()), one_more)[0].compared


@pytest.mark.parametrize("further", [2, 12])
def test_bad_runs_without_a_partner_refute_a_good_mean(further) -> None:
    """They were left out once: 12 of 17 runs at a loss of 60, and `holds` by the five others."""
    bad = [run("a", 10 + seed, worse=60.0) for seed in range(further)]
    runs = [*arms(of("a", worse=-0.1), of("b"), (SEEDS[:5], SEEDS[:5])), *bad]
    assert word(runs) == "undecided"
    lost = [run("a", 10 + seed, lost=True) for seed in range(further)]
    assert judge(claims(claim()), [*runs[:10], *lost])[0].reason == "diverged"


@pytest.mark.parametrize(("n", "found"), [(10, "holds"), (11, "undecided")])
def test_there_is_no_word_where_one_arm_has_more_than_twice_as_many_runs(n, found) -> None:
    for seeds in ((range(n), range(100, 105)), (range(100, 105), range(n))):
        (judged,) = judge(claims(claim()), arms(of("a", worse=-0.1), of("b"), seeds))
        assert judged.word == found and ("train 6 of the smaller side" in judged.answer) == (n == 11)


def test_seeds_that_alone_decide_are_named() -> None:
    keys = {"open": ["rate"], "controls": ["low"], "control_seeds": {"low": {"from": 1, "to": 6}}}
    runs = [*arms(of("a", worse=-0.1), of("b")), *arms(of("a", control="low"), of("b", control="low"))]
    (found,) = judge(claims(claim() | keys | {"seeds": {"from": 1, "to": 5}}), runs)
    assert found.n == 5 and "judged on seeds 1 to 5, under low on seeds 1 to 6 alone" in found.answer


def test_runs_of_other_controls_are_named() -> None:
    runs = [*arms(of("a", worse=-0.1), of("b")), *(run("a", seed, 9.0, control="low") for seed in (1, 2))]
    (found,) = judge(claims(claim()), runs)
    assert found.word == "holds" and "2 runs of the control low are left out" in found.compared


def test_what_diverged_under_a_control_is_named_and_a_control_is_not_the_setting() -> None:
    entry = claim() | {"open": ["rate"], "controls": ["low"]}
    low = arms(of("a", worse=-0.1, control="low"), of("b", control="low", lost=True))
    (found,) = judge(claims(entry), [*arms(of("a", worse=-0.1), of("b")), *low])
    assert found.word == "holds" and ci.failing(found, ["diverged"])
    assert "under low, diverged: 0 of 7 runs of arm a, 7 of 7 runs of arm b" in found.compared
    assert found.compared.count("pairs of equal seeds") == 1
    (found,) = judge(claims(entry), low)
    assert found.reason == "not run"


@pytest.mark.parametrize("seeds", [(SEEDS, SEEDS), (SEEDS, range(11, 18))], ids=["the same seeds", "other seeds"])
@pytest.mark.parametrize("counts", [(5, 5), (3, 7)], ids=str)
def test_an_axis_that_the_cell_does_not_name_is_not_averaged_over(seeds, counts) -> None:
    """Two tasks, in both of which a is better; the mean over both is that of how many runs each has."""
    runs = [run("a", s, -0.1 + 9 * (k >= counts[0]), axes={"env": "hard" if k >= counts[0] else "easy"})
            for k, s in enumerate(seeds[0])]  # fmt: skip
    runs += [run("b", s, 9 * (k >= counts[1]), axes={"env": "hard" if k >= counts[1] else "easy"})
             for k, s in enumerate(seeds[1])]  # fmt: skip
    with pytest.raises(NormbenchError, match="arm a differ in env: easy, hard") as error:
        word(runs)
    assert "env=easy" in str(error.value)
    easy = [one for one in runs if one.axes["env"] == "easy"]
    assert judge(claims(claim()), easy)[0].n == min(counts)
    each = [[weight, cell | {"env": "easy"}] for weight, cell in claim()["parts"][0]["contrast"]]
    assert judge(claims(claim(contrast=each)), runs)[0].n == min(counts)


def test_runs_of_other_options_are_not_averaged() -> None:
    """Of the program's own runs the options are in the configuration and in no axis."""

    def own(arm: str, seed: int) -> Run:
        made = run(arm, seed)
        return replace(made, config=made.config | {"optim": {"name": "adam", "lr": 0.1 if seed < 4 else 0.01}})

    with pytest.raises(NormbenchError, match=r"optim\.lr: 0\.1, 0\.01"):
        word(arms(partial(own, "a"), of("b")))


def test_one_arm_may_be_of_several_imports() -> None:
    runs = arms(of("a", worse=-0.1), of("b"))
    renamed = replace(runs[0], config=runs[0].config | {"model": {"name": "imported/y"}})
    assert word([renamed, *runs[1:]]) == "holds"


def test_what_needs_pairs_has_no_word_without_them() -> None:
    runs = arms(of("a", worse=-0.1), of("b"), (SEEDS, range(11, 18)))
    assert judge(claims(claim(test="sign")), runs)[0].reason == "not decidable here"


@pytest.mark.parametrize(("lost", "found"), [("a", "diverged"), ("b", "undecided"), ("ab", "undecided")])
@pytest.mark.parametrize(
    "endpoint", [FINAL, AREA, TIME | {"level": 0.1}, BEST | {"epoch": "last"}], ids=lambda e: e["kind"]
)
@pytest.mark.parametrize("seeds", [(SEEDS, SEEDS), (SEEDS, range(11, 18))], ids=["pairs", "Welch"])
def test_divergence_counts(endpoint, lost, found, seeds) -> None:
    short = STEPS[:6]  # where it was lost its log ends
    a, b = (of(arm, lost=True, steps=short) if arm in lost else of(arm) for arm in "ab")
    (judged,) = judge(claims(claim(endpoint)), arms(a, b, seeds))
    assert judged.word == "undecided" and judged.diverged == (judged.reason == "diverged") == (found == "diverged")
    assert judged.verdict == ("undecided (diverged) · as logged" if judged.diverged else "undecided · as logged")
    assert f"{7 if 'a' in lost else 0} of 7 runs of arm a" in judged.compared


def test_a_run_that_diverged_after_the_common_end_is_whole_there() -> None:
    runs = arms(lambda seed: run("a", seed, -0.1, lost=seed == 2), of("b", steps=STEPS[:8]))
    (found,) = judge(claims(claim(), length="common"), runs)
    assert found.word == "holds" and "1 of 7 runs of arm a, 0 of 7" in found.compared
    assert ci.failing(found, ["diverged"]), "the gate is told"
    other = arms(of("b", steps=STEPS[:8]), lambda seed: run("a", seed, lost=seed == 2))
    (found,) = judge(claims(claim(), length="common"), other)
    assert found.word == "undecided" and ci.failing(found, ["diverged"])


@pytest.mark.parametrize("n", [1, 2, 4])
def test_few_seeds_are_undecided_and_the_answer_says_so(n) -> None:
    (found,) = judge(claims(claim()), arms(of("a", worse=-1.0), of("b"), [range(n)] * 2))
    assert found.word == "undecided" and found.parts[0].why == "incomplete"
    assert "no verdict below 5 seeds" in found.answer


@pytest.mark.parametrize(("n", "found"), [(5, "undecided"), (6, "holds")])
def test_a_sign_test_of_too_few_pairs_is_incomplete(n, found) -> None:
    (judged,) = judge(claims(claim(test="sign")), arms(of("a", worse=-1.0), of("b"), [range(n)] * 2))
    assert judged.word == found and ("at least 6 seeds" in judged.answer) == (n == 5)
    assert ci.failing(judged, ["incomplete"]) == ("incomplete" if n == 5 else "")


def test_an_arm_without_runs_is_not_run() -> None:
    (found,) = judge(claims(claim(contrast=[[1, {"arm": "c"}], [-1, {"arm": "b"}]])), [run("b", s) for s in SEEDS])
    assert found.reason == "not run" and found.verdict == "untested (not run)"


def test_the_claims_of_a_file_share_holms_adjustment() -> None:
    rng = np.random.default_rng(3)
    worse = rng.normal(0.012, 0.008, 12)
    names = [f"a{number}" for number in range(12)]
    runs = [run(name, s, own) for name, own in zip(names, worse, strict=True) for s in SEEDS]
    runs += [run("b", s) for s in SEEDS]
    pairs = [[[1, {"arm": name}], [-1, {"arm": "b"}]] for name in names]
    found = judge(claims(*(claim(id=n, contrast=p) for n, p in zip(names, pairs, strict=True))), runs)
    ends = {(one.arm, one.seed): [dict(record)["loss"] for record in one.records][-1] for one in runs}
    p = [float(stats.ttest_1samp([ends[n, s] - ends["b", s] for s in SEEDS], 0).pvalue) for n in names]
    rejected = [value <= 0.05 for value in holm(p)]
    assert 0 < sum(rejected) < sum(value <= 0.05 for value in p), "the adjustment changes a word"
    assert [one.word in ("holds", "fails") for one in found] == rejected


@pytest.mark.parametrize("alone", [False, True], ids=["pairs", "two groups"])
@pytest.mark.parametrize("looks", [[5, 8], {"at": [5, 6, 8], "spending": "pocock"}], ids=str)
def test_a_word_at_a_look_is_that_of_the_test_at_its_level(looks: Any, alone: bool) -> None:
    rng = np.random.default_rng(8)
    at, spending = (looks["at"], looks["spending"]) if isinstance(looks, dict) else (looks, "obrien-fleming")
    planned, words = claims(claim(), looks=looks), []
    for _ in range(50):
        n, worse = int(rng.integers(5, 9)), float(rng.normal(0, 0.03))
        runs = arms(of("a", worse=worse), of("b"), (range(1, n + 1), range(1 + n * alone, n * (1 + alone) + 1)))
        noise = rng.normal(0, 0.02, 2 * n)
        runs = [run(one.arm, one.seed, worse * (one.arm == "a") + more) for one, more in zip(runs, noise, strict=True)]
        ends = [[dict(record)["loss"] for record in one.records][-1] for one in runs]
        test = stats.ttest_ind(ends[:n], ends[n:], equal_var=False) if alone else stats.ttest_rel(ends[:n], ends[n:])
        (found,) = judge(planned, runs)
        if n not in at:
            assert found.word == "undecided" and found.look == 0 and found.interval is None
            assert f"no planned look at n = {n} (planned: {', '.join(map(str, at))})" in found.answer
            continue
        level = level_at(n, tuple(at), 0.05, spending)
        side = "holds" if test.statistic < 0 else "fails"
        assert found.word == (side if test.pvalue <= level else "undecided")
        assert found.interval == pytest.approx(test.confidence_interval(1 - level), rel=1e-6)
        assert (found.look, found.looks, found.level) == (at.index(n) + 1, tuple(at), pytest.approx(1 - level))
        words.append((n, found.word))
    assert {word for _, word in words} == {"holds", "fails", "undecided"} and {n for n, _ in words} == {*at}


def test_with_looks_all_claims_of_a_file_share_the_level_from_the_first_look_on() -> None:
    pairs = {name: [[1, {"arm": name}], [-1, {"arm": "b"}]] for name in "acd"}
    planned = claims(*(claim(id=name, contrast=pair) for name, pair in pairs.items()), looks=[5, 10])
    counts = {"a": 5, "b": 5, "c": 7}  # nothing of d yet
    found = judge(planned, [run(arm, seed) for arm, n in counts.items() for seed in range(1, n + 1)])
    assert [one.alpha for one in found] == [pytest.approx(0.05 / 3)] * 3
    assert found[0].level == pytest.approx(1 - level_at(5, (5, 10), 0.05 / 3, "obrien-fleming"))
    assert (found[1].parts[0].why, found[2].reason) == ("no planned look", "not run") and "7 against 5" in found[
        1
    ].answer
    without = claims(*(claim(id=name, contrast=pair) for name, pair in pairs.items()))
    first, *_ = judge(without, [run(arm, seed) for arm in "ab" for seed in range(1, 6)])
    assert first.alpha == 0.05, "without looks only what can be decided counts"


def test_a_claim_may_have_looks_of_its_own() -> None:
    planned = claims(claim(), claim(id="C2") | {"looks": [6, 9]}, looks=[5, 10])
    first, second = judge(planned, arms(of("a", worse=-1.0), of("b"), (range(1, 7), range(1, 7))))
    assert (first.word, second.word) == ("undecided", "holds") and second.looks == (6, 9)


def test_no_worse_holds_by_its_margin() -> None:
    runs = arms(of("a", worse=0.01), of("b"))
    margins = {within: judge(claims(claim(kind="no_worse", within=within)), runs)[0] for within in (0.001, 0.1)}
    assert margins[0.1].verdict == "holds · as logged" and margins[0.001].word == "undecided"
    worse = arms(of("a", worse=1.0), of("b"))
    assert judge(claims(claim(kind="no_worse", within=0.1)), worse)[0].verdict == "fails · as logged"


EPOCHS = {"about": {"clocks": ["epoch"]}}
REFUSED = {  # what of the runs, the part, the key that the message names
    "better": (
        {"metrics": {"loss": {"goal": "max"}}, "monitor": MONITOR | {"goal": "max"}},
        {"endpoint": FINAL | {"better": "lower"}},
        "better: lower",
    ),
    "the better one of a time": ({"metrics": {}, "monitor": None}, {"endpoint": TIME}, "`better`"),
    "scale": ({}, {"scale": "percent"}, "scale: percent"),
    "clock": (EPOCHS, {"endpoint": TIME}, "clock step"),
    "the default clock": ({}, {"endpoint": TIME | {"clock": "epoch"}}, "clock epoch"),
    "an epoch": ({}, {"endpoint": BEST | {"epoch": 3}}, "clock epoch"),
    "the metric": ({}, {"endpoint": FINAL | {"metric": "los"}}, "'loss'"),
    "monitor": ({"monitor": None}, {"endpoint": BEST}, "`monitor`"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_logs_do_not_declare_is_refused(case) -> None:
    of_runs, of_part, key = REFUSED[case]
    runs = arms(of("a", **of_runs), of("b", **of_runs))
    with pytest.raises(NormbenchError, match=key) as error:
        judge(
            claims(claim(of_part.get("endpoint", FINAL), **{k: v for k, v in of_part.items() if k != "endpoint"})), runs
        )
    assert error.value.code == 2 and "a against b" in str(error.value)


def test_clocks_that_differ_between_runs_are_refused() -> None:
    with pytest.raises(NormbenchError, match="epochs alone"):
        word(arms(of("a", **EPOCHS), of("b")))


def test_two_runs_of_an_arm_and_a_seed_are_refused() -> None:
    runs = arms(of("a"), of("b"))
    with pytest.raises(NormbenchError, match="two runs of seed"):
        word([*runs, replace(runs[0], id="f" * 12)])


def test_a_map_says_what_is_on_a_logarithm_and_not_the_name() -> None:
    """The area of a metric called loss is an arithmetic mean where the map has no `log`."""
    areas = {}
    for log in (False, True):
        facts = {"metrics": {"loss": {"goal": "min", **({"log": True} if log else {})}}}
        runs = arms(of("a", **facts), of("b", **facts))
        (found,) = judge(claims(claim(AREA)), runs)
        areas[log] = float(found.parts[0].cells[0]["values"][0])
    loss = np.array([dict(record)["loss"] for record in run("a", 1).records if record["split"] == "valid"])
    assert areas[False] == pytest.approx(integrate.trapezoid(loss, STEPS) / 100, rel=5e-3)
    assert areas[True] == pytest.approx(np.exp(integrate.trapezoid(np.log(loss), STEPS) / 100), rel=5e-3)


def test_the_ends_of_a_narrow_interval_are_told_apart() -> None:
    """It read 0.055 to 0.055."""

    def narrow(arm: str, seed: int) -> Run:
        end = 1 + 0.0546 * (arm == "a") + 1e-5 * seed * (1 + (arm == "a"))
        return curves(arm, seed, {("valid", "loss"): {0: 3.0, 10: end}})

    (found,) = judge(claims(claim()), arms(partial(narrow, "a"), partial(narrow, "b")))
    low, high = re.findall(r"\[([\d.]+), ([\d.]+)\]", found.answer)[0]
    assert found.word == "fails" and 0.0546 <= float(low) < float(high) <= 0.0547
    (effect,) = re.findall(r"is ([\d.]+) nats", found.answer)
    assert float(low) <= float(effect) <= float(high), "with as many digits"


FILE_ERRORS = {
    "few seeds": ({"seeds": 3}, "seeds: 3 must be at least 5"),
    "an experiment needs what a paper's claims have": ({"experiment": "x/y"}, "'id' is missing"),
    "length": ({"length": "shortest"}, "length"),
    "a key": ({"lenght": "common"}, "length"),
}


@pytest.mark.parametrize("case", FILE_ERRORS)
def test_a_file_is_checked_key_by_key(case) -> None:
    keys, named = FILE_ERRORS[case]
    with pytest.raises(NormbenchError, match=named):
        claims(claim(), **keys)


# --- what an audit found --------------------------------------------------------------------------------------------


def curves(arm: str, seed: int, blocks: dict[tuple[str, str], dict[int, Any]], **given: Any) -> Run:
    """A run with these values by step of each (split, metric)."""
    curve = Curve.of_columns(
        {"split": split, "mode": "logged", "columns": {"step": [*values], metric: [*values.values()]}}
        for (split, metric), values in blocks.items()
    )
    goals = {metric: {"goal": "min"} for _, metric in blocks}
    facts: dict[str, Any] = {"metrics": goals, "about": {"clocks": ["step"]}, "monitor": MONITOR} | given
    return imported.record(
        "x", f"{arm}/{seed}", arm, seed, curve, max(max(values) for values in blocks.values()), **facts
    )


def test_a_claim_that_no_run_can_decide_is_not_supported() -> None:
    entry = claim() | {"parts": [], "not_decidable": "nobody logged it"}
    (found,) = judge(claims(entry), arms(of("a"), of("b")))
    assert found.reason == "not decidable here" and "nobody logged it" in found.answer


def test_a_longer_time_is_worse_whatever_the_metric() -> None:
    def acc(arm: str, seed: int) -> Run:
        noise = 0.01 * np.random.default_rng([seed, *arm.encode()]).normal()
        rise = {step: min(1.0, step / (100 if arm == "a" else 50) + noise) for step in range(0, 101, 5)}
        goal = {"metrics": {"acc": {"goal": "max"}}, "monitor": None}
        return curves(arm, seed, {("valid", "acc"): rise}, **goal)

    reach = {"kind": "time_to_level", "split": "valid", "metric": "acc", "level": 0.5, "clock": "step"}
    runs = arms(partial(acc, "a"), partial(acc, "b"))
    (found,) = judge(claims(claim(reach, kind="no_worse", within=10.0, unit="updates")), runs)
    assert found.word == "fails" and "later" in found.answer


def test_the_best_is_chosen_first_and_read_then() -> None:
    """A test metric that is logged at each run's best and at the end alone."""

    def own(arm: str, seed: int) -> Run:
        best = 20 if seed % 2 else 40
        valid = {step: 1 + abs(step - best) / 100 for step in range(0, 101, 10)}
        worse = 0.3 + 0.001 * seed if arm == "b" else 0.0
        test = {best: 1.0 + worse + 0.001 * seed, 100: 2.0 - worse + 0.001 * seed}
        return curves(arm, seed, {("valid", "loss"): valid, ("test", "loss"): test})

    at = {"kind": "chosen", "epoch": "best", "split": "test", "metric": "loss"}
    assert word(arms(partial(own, "a"), partial(own, "b")), at) == "holds"
    assert word(arms(partial(own, "a"), partial(own, "b")), FINAL | {"split": "test"}) == "fails"


def test_a_run_that_was_not_finite_on_the_way_is_named() -> None:
    def own(arm: str, seed: int) -> Run:
        values = {step: 1 + seed / 100 + (arm == "b") + step / 1000 for step in range(0, 101, 10)}
        return curves(arm, seed, {("valid", "loss"): values | ({50: math.nan} if (arm, seed) == ("b", 3) else {})})

    (found,) = judge(claims(claim(FINAL)), arms(partial(own, "a"), partial(own, "b")))
    assert "finite again: b seed 3" in found.compared


def test_a_run_that_was_lost_is_read_at_the_common_steps_too() -> None:
    fine = of("a", lost=True, steps=range(0, 101))
    (found,) = judge(claims(claim(TIME)), arms(fine, of("b")))
    assert found.reason == "diverged" and "7 of 7 runs of arm a" in found.compared


@pytest.mark.parametrize(
    ("key", "named"),
    [
        ({"metrics": {"loss": {"goal": "min", "unit": "percent"}}}, "units"),
        ({"monitor": MONITOR | {"split": "train"}}, "monitor"),
    ],
)
def test_units_and_monitors_that_differ_are_refused(key, named) -> None:
    with pytest.raises(NormbenchError, match=named):
        word(arms(of("a", **key), of("b")), BEST)


def test_which_way_is_better_is_not_assumed() -> None:
    bare = {"metrics": {"loss": {}}, "monitor": None}
    runs = arms(of("a", worse=-0.1, **bare), of("b", **bare))
    (found,) = judge(claims(claim()), runs)
    assert found.word == "holds" and "lower than" in found.answer and "better" not in found.answer
    with pytest.raises(NormbenchError, match="better"):
        judge(claims(claim(kind="no_worse", within=0.1)), runs)


def test_the_answer_says_where_runs_are_compared_and_what_else_differs() -> None:
    runs = arms(of("a", steps=STEPS[:3], axes={"optim.lr": 0.1}), of("b", axes={"optim.lr": 0.01}))
    (found,) = judge(claims(claim(AREA), length="common"), runs)
    assert "up to step 20 of 100" in found.compared and "differ in optim.lr: 0.1 and 0.01" in found.compared


def test_the_answer_says_how_many_steps_are_common() -> None:
    runs = arms(of("a", steps=STEPS[::2]), of("b"))
    assert "at the 6 steps that all have, of 11" in judge(claims(claim(AREA)), runs)[0].compared


def test_a_run_without_a_partner_that_ends_early_is_not_left_out() -> None:
    runs = [*arms(of("a", worse=-0.1), of("b")), run("a", 8, steps=STEPS[:2])]
    with pytest.raises(NormbenchError, match="a seed 8"):
        word(runs)
    assert word(runs, length="common") == "undecided"


def test_a_run_that_diverged_later_than_the_others_end_diverged() -> None:
    late = of("b", lost=True, steps=range(0, 151, 10))
    (found,) = judge(claims(claim()), arms(of("a"), late))
    assert found.word == "undecided" and "7 of 7 runs of arm b" in found.compared


def test_another_claim_makes_no_word_stronger() -> None:
    """Where the level of two claims misses the smallest effect, there is no sign either."""
    runs = [*arms(of("a", worse=-0.1), of("b")), *map(of("c"), SEEDS)]
    (plain,) = judge(claims(claim()), runs)
    half = (plain.interval[1] - plain.interval[0]) / 2  # at 95 %
    ninety = half * stats.t.ppf(0.95, len(SEEDS) - 1) / stats.t.ppf(0.975, len(SEEDS) - 1)
    first = claim(delta={"is": float(abs(plain.effect) + (half + ninety) / 2), "why": "s"})
    other = claim(id="C2", contrast=[[1, {"arm": "c"}], [-1, {"arm": "b"}]])
    assert [one.word for one in judge(claims(first), runs)] == ["negligible"]
    assert judge(claims(first, other), runs)[0].word == "undecided"


@pytest.mark.parametrize("part", [{"scale": "log", "unit": "log ratio"}, {"endpoint": AREA}], ids=["scale", "map"])
def test_a_negative_number_has_no_logarithm(part) -> None:
    facts = {"metrics": {"loss": {"goal": "min", "log": True}}}
    runs = arms(of("a", worse=-1.0, **facts), of("b", **facts))
    with pytest.raises(NormbenchError, match="logarithm"):
        judge(claims(claim(part.get("endpoint", FINAL), **{k: v for k, v in part.items() if k != "endpoint"})), runs)


def test_a_level_on_the_way_needs_no_epochs() -> None:
    way = TIME | {"level": {"share": 0.9, "of": "best", "least": 1.0}}
    assert word(arms(of("a", worse=-0.1), of("b")), way) == "holds"


def test_one_gap_in_a_curve_is_no_divergence() -> None:
    def gap(arm: str, seed: int) -> Run:
        loss: dict[int, Any] = {step: 1.0 + 0.01 * seed for step in STEPS}
        return curves(arm, seed, {("valid", "loss"): loss | ({50: "NaN"} if arm == "a" and seed < 3 else {})})

    (found,) = judge(claims(claim(AREA)), arms(partial(gap, "a"), partial(gap, "b")))
    assert found.reason == "not decidable here" and "a seed 1 and 1 more" in found.answer


def test_one_control_is_judged_and_of_several_one_is_chosen() -> None:
    low = arms(of("a", worse=-0.1, control="low"), of("b", control="low"))
    assert word(low) == "holds"
    with pytest.raises(NormbenchError, match="control"):
        word([*low, run("a", 1, control="high")])


def test_counted_seeds_are_no_pairs() -> None:
    counted = {"about": {"clocks": ["step"], "counted_seeds": True}}
    (found,) = judge(claims(claim()), arms(of("a", **counted), of("b", **counted)))
    assert "Welch" in found.compared


LOOKED = [{"claim": "C1", "change": "c", "reason": "r", "looked": {"from": 1, "to": 5}}]
FIGURE = {"rows": [{"name": "NLL", "split": "test", "metric": "nll"}]}


@pytest.mark.parametrize(
    "keys",
    [{"seen": 3}, {"figure": FIGURE}, {"amendments": LOOKED}, {"seeds": {"smoke": {"from": 1, "to": 5}}}],
    ids=str,
)
def test_what_an_experiment_plans_is_refused_without_one(keys) -> None:
    of_file = {key: value for key, value in keys.items() if key != "seeds"}
    with pytest.raises(NormbenchError, match="experiment"):
        claims(claim() | {key: value for key, value in keys.items() if key not in of_file}, **of_file)


def test_a_cell_is_not_compared_with_itself() -> None:
    with pytest.raises(NormbenchError, match="itself"):
        judge(claims(claim(contrast=[[1, {"arm": "a"}], [-1, {"arm": "a"}]])), arms(of("a"), of("b")))
