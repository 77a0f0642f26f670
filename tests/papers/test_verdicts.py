"""From runs to verdicts: a table of (runs, what was planned -> word), and the numbers behind the words."""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged import (
    ACCURACY,
    BN,
    ERROR,
    JITTER,
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

from normbench.core.keys import Range
from normbench.errors import NormbenchError
from normbench.papers.claims import Amendment, Artifact, Delta, Endpoint, Level, Looks, Part
from normbench.runs.run import Run
from normbench.stats.examples import spread
from normbench.stats.looks import level_at
from normbench.stats.series import over_sites

SMALL = Delta(1.0, "w")
SIGN = direction(TIME, scale="log", test="sign", unit="log ratio")
REACHED = [timed_run("ln", seed, 3) for seed in range(6)]
NEVER = [timed_run("bn", seed, None) for seed in range(6)]
OUTLIER = [
    final_run(arm, s, 100 + v * (arm == "ln"))
    for s, v in enumerate((-1, -1.1, -1.2, -1.3, -0.9, -50))
    for arm in ("ln", "bn")
]
LOW, HIGH = (lambda effect, name=name, **more: arms(effect, control=name, **more) for name in ("lr-low", "lr-high"))


def equal(within: float) -> Part:
    return direction(kind="equivalence", expect=None, within=within)


def size(paper: float, band: float, **more: Any) -> Part:
    return direction(kind="size", expect=None, paper=paper, band=band, **more)


def times(*epochs: int) -> list[Run]:
    """BN's, and LN's of always 2."""
    return [run for s, epoch in enumerate(epochs) for run in (timed_run("ln", s, 2), timed_run("bn", s, epoch))]


def fresh(runs: Sequence[Run], by: int = 5) -> list[Run]:
    return [replace(run, seed=run.seed + by) for run in runs]


HOLDS, FAILS = "holds · nothing open", "fails · nothing open"

# --- one part --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "runs", "word", "why"),
    [
        (direction(), arms(-1.0), HOLDS, ""),
        (direction(), arms(1.0), FAILS, ""),
        (direction(), arms(-0.1), "undecided", ""),
        (direction(), arms(-1.0, spread=0.0), "undecided", "alike"),
        (direction(delta=SMALL), arms(-0.5), "negligible · nothing open", ""),
        (direction(delta=SMALL), arms(0.5), "negligible · nothing open", ""),
        (equal(0.5), arms(0.0), HOLDS, ""),
        (equal(0.2), arms(0.0), "undecided", ""),
        (equal(0.5), arms(0.5), "undecided", ""),
        (equal(0.5), arms(-1.0), FAILS, ""),
        (equal(0.5), arms(0.0, status="diverged")[:2] + arms(0.0)[2:], "undecided", "no mean"),
        (size(-1.0, 1.0), arms(-1.0), HOLDS, ""),  # prediction interval [−1.75, −0.29]
        (size(-1.0, 0.5), arms(-1.0), "undecided", ""),  # one more run of ours may lie further from it
        (size(-1.7, 1.0), arms(-1.0), "undecided", ""),
        (size(-2.0, 9.0), arms(-1.0), FAILS, ""),
        (size(-0.1, 9.0), arms(-1.0), FAILS, ""),
        (size(-0.7, 0.5, endpoint=TIME, scale="log"), REACHED + NEVER, "undecided", "no mean"),
        (direction(), [*arms(-1.0)[1:], final_run("bn", 1, None)], "untested (not decidable here)", "no record"),
        (direction(contrast=((1.0, {"arm": "rms"}), (-1.0, BN))), arms(-1.0), "untested (not run)", "no runs"),
        (direction(), fresh(arms(-1.0)[::2]) + arms(-1.0)[1::2], "undecided", "incomplete"),
        (direction(), OUTLIER, "undecided", ""),  # it is most of the spread
        (direction(test="sign"), OUTLIER, HOLDS, ""),
        (SIGN, REACHED + NEVER, HOLDS, ""),
        (replace(SIGN, expect="positive"), REACHED + NEVER, FAILS, ""),
        (replace(SIGN, test="t"), REACHED + NEVER, "undecided", "no mean"),
        (SIGN, REACHED[:5] + NEVER[:5], "undecided", "few seeds"),
        (SIGN, [timed_run("ln", s, 0) for s in range(6)] + [timed_run("bn", s, 4) for s in range(6)], HOLDS, ""),
        (direction(TIME, scale="log"), times(4, 4, 4, 4, 5), HOLDS, ""),
    ],
)  # fmt: skip
def test_the_word_of_one_part(part: Part, runs: list[Run], word: str, why: str) -> None:
    found = only(artifact(part, kind=part.kind), runs)
    assert (found.verdict, found.parts[0].why) == (word, why)
    assert verdict(artifact(part, kind=part.kind, ours=True), runs) == word


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_no_word_below_five_seeds(n: int) -> None:
    for effect, plan in ((-5.0, None), (5.0, None), (5.0, Plan(n))):  # the last as at smoke fidelity
        claim = only(artifact(direction()), arms(effect, n=n, spread=0.01), planned=plan)
        assert (claim.verdict, claim.n, claim.parts[0].why) == ("undecided", n, "incomplete")
        assert (claim.interval is None) == (n == 1)


def probe(value: Any, name: str = "probe") -> Run:
    return Run(name, "x/fig", name, 0, "done", 0, records=[recorded(gap=value)])


def recorded(**numbers: Any) -> dict[str, Any]:
    return {"epoch": 0, "step": 0, "split": "probe", "mode": "eval", **numbers}


@pytest.mark.parametrize(
    ("bounds", "values", "word", "worst"),
    [
        ({"at_most": 1e-9}, [1e-12], "holds · exact", 1e-12),
        ({"at_most": 1e-9}, [1e-3], "fails · exact", 1e-3),
        ({"at_most": 1}, [9, "NaN", 3], "fails · exact", None),
        ({"at_least": 1e-3}, [0.1], "holds · exact", 0.1),
        ({"at_least": 1}, [5, 2, 3], "holds · exact", 2),
        ({"at_least": 1, "at_most": 4}, [2, 9, 0], "fails · exact", 9),
        ({"value": 1}, [True], "holds · exact", 1),
        ({"value": 4}, [4, 1, 6], "fails · exact", 1),
    ],
)
def test_a_computed_number_needs_no_seeds_and_the_worst_is_shown(
    bounds: Mapping[str, float], values: list[Any], word: str, worst: float | None
) -> None:
    end = Endpoint("value", key="gap")
    part = Part("e", "exact", end, "relative", ((1.0, {}),), scale="linear", **bounds)  # type: ignore[arg-type]
    claim = artifact(part, kind="exact")
    content = judge(claim, [probe(value, name) for name, value in zip("abc", values, strict=False)], "paper")
    (found,) = content.claims
    assert (found.verdict, found.effect, found.level, content.expected_wrong) == (word, worst, None, 0)
    assert verdict(claim, []) == "untested (not run)"
    for records in ([recorded(other=1)], [recorded(gap=1), recorded(gap=2)]):
        assert verdict(claim, [replace(probe(0), records=records)]) == "untested (not decidable here)"


def test_the_numbers_of_a_verdict() -> None:
    content = judge(artifact(direction()), arms(-1.0), "paper")
    assert content.command == "normbench reproduce x/fig --fidelity paper" and content.deviations == ("d",)
    controlled = judge(artifact(direction()), [*arms(-1.0), *LOW(-1.0)], "paper")
    assert controlled.command == f"{content.command} --controls"
    (claim,) = content.claims
    assert (claim.n, claim.level, claim.alpha, claim.unit) == (5, 0.95, 0.05, "points")
    assert claim.effect == pytest.approx(-1.02)
    sd = 0.23874673
    assert claim.interval == pytest.approx([-1.02 + s * 2.776445 * sd / 5**0.5 for s in (-1, 1)], rel=1e-5)
    assert claim.detectable == pytest.approx(1.682 * sd, rel=1e-3)
    assert len(claim.runs) == 10 and claim.runs == tuple(sorted(claim.runs))
    (part,) = claim.parts
    assert part.word == "holds" and part.correlation > 0.9 and part.seeds == (1, 2, 3, 4, 5)
    assert part.prediction == pytest.approx([-1.75, -0.29], abs=0.01) and part.signed_rank == 0.0625


def test_only_seeds_of_every_cell_count() -> None:
    claim = only(artifact(direction()), [run for run in arms(-1.0, n=7) if (run.arm, run.seed) != ("ln", 2)])
    assert claim.n == 6 and not any("-2-" in run for run in claim.runs)


def test_scales_and_cells() -> None:
    cells = [{"arm": arm, "b": b} for arm in ("ln", "bn") for b in (4, 128)]
    contrast = tuple(zip((1.0, -1.0, -1.0, 1.0), cells, strict=True))
    values = {("ln", 4): 0.04, ("ln", 128): 0.02, ("bn", 4): 0.16, ("bn", 128): 0.04}
    runs = [final_run(arm, s, v, axes={"b": b}) for (arm, b), v in values.items() for s in range(5)]
    for scale, effect in (("linear", -0.1), ("percent", -10.0), ("log", -0.693147)):
        assert only(artifact(direction(contrast=contrast, scale=scale)), runs).effect == pytest.approx(effect)
    zero = [final_run(arm, s, v, "nll") for s in range(5) for arm, v in (("ln", 0.0), ("bn", 1e-12))]
    assert only(artifact(direction(NLL, scale="log")), zero).effect == 0.0
    four = [{"arm": "ln", "b": b} for b in (1, 2, 3, 4)]
    tie = tuple(zip((1.0, 1.0, -1.0, -1.0), four, strict=True))
    runs = [final_run("ln", s, v, axes={"b": b}) for s in range(5) for b, v in ((1, 0.1), (2, 0.2), (3, 0.3), (4, 0.0))]
    assert 0.1 + 0.2 - 0.3 != 0 and only(artifact(direction(contrast=tie)), runs).effect == 0


def test_a_gain_is_the_last_value_less_an_earlier_one() -> None:
    """Of the runs of one cell alone; not where the evaluation after that share of the updates is lacking."""
    part = direction(
        Endpoint("gain", "mr", "along", "accuracy", better="higher", share=0.5),
        "positive",
        contrast=((1.0, LN),),
        scale="percent",
    )

    def run(seed: int, gained: float, middle: int = 20) -> Run:
        place, values = {"split": "mr", "mode": "along"}, {0: 0.9, middle: 0.6, 30: 0.0, 40: 0.6 + gained}
        records = [{**place, "step": step, "epoch": step / 7, "accuracy": value} for step, value in values.items()]
        return Run(f"ln-{seed}", "x/fig", "ln", seed, "done", 0, steps=40, records=records)

    for gained, expected in ((0.05, HOLDS), (-0.05, FAILS)):
        found = only(artifact(part), [run(seed, gained + JITTER[seed] / 100) for seed in range(5)])
        assert found.verdict == expected and found.effect == pytest.approx(100 * gained, abs=0.1)
    assert verdict(artifact(part), [run(seed, 0.05, middle=10) for seed in range(5)]) == "untested (not decidable here)"


def test_how_far_a_run_ends_above_its_best() -> None:
    """Of a metric whose higher values are better, how far below; a run that diverged on the way has no number."""
    part = direction(Endpoint("past_best", "valid", metric="nll"), "positive", contrast=((1.0, LN),))

    def runs(*values: float, status: str = "done") -> list[Run]:
        places = [{"split": "valid", "mode": "eval", "step": step, "epoch": step} for step in range(len(values))]
        found = []
        for seed in range(5):
            nll = [value + JITTER[seed] * step / 100 for step, value in enumerate(values)]
            records = [{**place, "nll": value} for place, value in zip(places, nll, strict=True)]
            found.append(Run(f"ln-{seed}", "x/fig", "ln", seed, status, 0, steps=len(values) - 1, records=records))
        return found

    risen = only(artifact(part), runs(0.1, 0.5, 0.3, 0.7))  # the value before training is not of the run
    assert risen.word == "holds" and risen.effect == pytest.approx(0.4, abs=0.05)
    higher = replace(part, endpoint=replace(part.endpoint, better="higher"), expect="negative")
    assert only(artifact(higher), runs(0.9, 0.5, 0.7, 0.3)).effect == pytest.approx(-0.4, abs=0.05)
    assert only(artifact(part), runs(0.1, 0.5, math.nan, 0.7)).parts[0].diverged == 5


def test_numbers_of_sites_are_correlated_by_their_ranks() -> None:
    """Sites by their place in the network, block 10 behind block 2; too few, or equal ones, have no number."""
    paths = ["block.0.mlp", "block.2.mlp", "block.10.mlp", "final"]

    def run(alphas: list[float], **more: list[float]) -> Run:
        numbers = {"alpha": alphas, **more}
        record = {"split": "train", "mode": "both", "step": 9, "epoch": 1}
        sites = {f"{path}.{key}": v for key, values in numbers.items() for path, v in zip(paths, values, strict=False)}
        return Run("ln-1", "x/fig", "ln", 1, "done", 0, steps=9, records=[{**record, **sites}])

    def correlated(found: Run, against: str) -> float | None:
        return over_sites(found, "train", "eval", "alpha", against)

    assert correlated(run([0.1, 0.2, 0.3, 40.0]), "depth") == pytest.approx(1)
    assert correlated(run([0.4, 0.3, 0.1, 0.2]), "depth") == pytest.approx(-0.8)  # 1 - 6 * 18 / 60
    stds = run([0.1, 0.2, 0.3, 40.0], input_std=[9.0, 7.0, 8.0, 1.0])
    assert correlated(stds, "input_std") == pytest.approx(-0.8)
    assert correlated(run([0.1, 0.2]), "depth") is None and correlated(run([0.5] * 4), "depth") is None
    assert correlated(stds, "saturated") is None


def test_examples_of_the_test_set_widen_the_interval() -> None:
    """Ten seeds on one test set: which examples it has is drawn too, and no seed draws it again."""
    runs, claim, asked = arms(-1.0, n=10), artifact(direction()), []
    bn, ln = (np.array([run.records[-1]["error"] for run in runs[first::2]]) for first in (0, 1))

    def found(width: float, runs: list[Run] = runs) -> dict[str, Any]:
        def examples(part: Part, control: str, seeds: Sequence[int]) -> Any:
            asked.append((control, list(seeds)))
            return spread((ln - bn)[:, None] + width * np.linspace(-1, 1, 20)[None, :])

        return only(claim, runs, examples=examples)

    narrow, wide, plain = found(0.1), found(10.0), only(claim, runs)
    assert [one.verdict for one in (narrow, wide, plain)] == [
        HOLDS,
        "undecided",
        HOLDS,
    ]
    assert [one.parts[0].examples for one in (narrow, wide, plain)] == [20, 20, 0]
    assert narrow.effect == wide.effect == plain.effect and asked[0] == ("", list(range(1, 11)))
    lost = replace(runs[0], status="diverged", records=runs[0].records[:1])
    assert found(0.1, [lost, *runs[1:]]).parts[0].examples == 0, "one seed has no number"


# --- runs without a number -------------------------------------------------------------------------------------------


def test_times_that_are_not_reached_are_decided_by_the_sign_test() -> None:
    slow = [timed_run("bn", seed, None if seed % 2 else 6) for seed in range(6)]
    (part,) = only(artifact(SIGN), REACHED + slow).parts
    assert (part.word, part.effect, part.interval, part.censored) == ("holds", None, None, 3)
    assert part.sign_test == {"above": 0, "below": 6, "p": 0.03125}
    assert part.cells[1]["values"] == ["6", "≥ 8", "6", "≥ 8", "6", "≥ 8"]
    small = replace(SIGN, delta=Delta(0.9, "w"))
    runs = [timed_run(arm, s, epoch) for s in range(1, 13) for arm, epoch in (("ln", 3), ("bn", 4 + s % 2))]
    assert verdict(artifact(small), runs) == "negligible · nothing open"
    (part,) = only(artifact(small), [runs[0], timed_run("bn", 1, None), *runs[2:]]).parts
    assert (part.word, part.delta) == ("holds", None), "an unobserved time cannot show that an effect is small"
    assert only(artifact(direction(test="sign")), OUTLIER).effect == -1.15, "the median"


@pytest.mark.parametrize(
    ("ln", "bn", "counts"),
    [
        (timed_run("ln", 9, None), timed_run("bn", 9, None), (0, 5)),
        (timed_run("ln", 9, 4), timed_run("bn", 9, 4), (0, 5)),
        (timed_run("ln", 9, None), timed_run("bn", 9, 4), (1, 5)),
        (timed_run("ln", 9, 6), timed_run("bn", 9, None, epochs=3), (0, 5)),  # three epochs: six say nothing
        (timed_run("ln", 9, 6), timed_run("bn", 9, None, status="diverged"), (0, 6)),  # it never gets there
    ],
)
def test_pairs_without_known_order_do_not_count(ln: Run, bn: Run, counts: tuple[int, int]) -> None:
    test = only(artifact(direction(TIME, scale="log")), [*REACHED[:5], *NEVER[:5], ln, bn]).parts[0].sign_test
    assert (test["above"], test["below"]) == counts


def test_a_share_of_the_way_is_one_level_for_the_runs_compared() -> None:
    """From the highest start of a seed's runs to their lowest value; a run that never comes so far is slower."""

    def run(arm: str, seed: int, *errors: float) -> Run:
        records = [
            {"epoch": 3 * e, "split": "valid", "mode": "eval", "error": value, "step": 30 * e}
            for e, value in enumerate(errors)
        ]
        return Run(f"{arm}-{seed}", "x/fig", arm, seed, "done", 9, records=records)

    def part(endpoint: Endpoint, *runs: Run) -> Any:
        return only(artifact(direction(endpoint, scale="log")), runs).parts[0]

    def steps(endpoint: Endpoint, *runs: Run) -> list[str]:
        return [cell["values"] for cell in part(endpoint, *runs).cells]

    time = Endpoint("time_to_level", split="valid", mode="eval", metric="error", level=Level(0.5, "best"), clock="step")
    ln, bn = run("ln", 1, 1.0, 0.6, 0.2, 0.3), run("bn", 1, 1.2, 1.1, 0.8, 0.5)
    other = [run("ln", 2, 1.0, 0.9, 0.8, 0.8), run("bn", 2, 1.0, 0.0, 0.0, 0.0)]
    assert steps(time, ln, bn) == [["22.5"], ["70"]]
    assert steps(replace(time, level=Level(1.0, "best")), ln, bn) == [["60"], ["≥ 90"]]
    assert steps(time, ln, bn, *other) == [["22.5", "≥ 90"], ["70", "15"]]
    assert steps(replace(time, level=Level(0.5, BN)), ln, bn) == [["11.3"], ["55"]], "from 1.2 to 0.5, whatever ln does"
    assert steps(replace(time, better="higher"), ln, bn) == [["≥ 90"], ["0"]], "up from 1 to 1.2"
    where = {"split": "valid", "mode": "eval", "metric": "error"}
    for least, begun in ((0.75, False), (0.6, True)):  # bn has come 0.7
        levels = [Level(0.5, of, least) for of in (LN, BN, "best")]
        chosen, area = Endpoint("chosen", **where, epoch="best", least=least), Endpoint("area", **where, least=least)
        for endpoint in (chosen, area, *(replace(time, level=level) for level in levels)):
            assert (part(endpoint, ln, bn).why != "hardly begun") == begun


@pytest.mark.parametrize(("endpoint", "expect"), [(ERROR, "negative"), (ACCURACY, "positive")])
def test_a_diverged_run_is_worst(endpoint: Endpoint, expect: str) -> None:
    runs = arms(-1.0 if expect == "negative" else 1.0, n=6, metric=endpoint.metric)
    runs[0] = replace(runs[0], status="diverged", records=runs[0].records[:1])  # bn, seed 1
    claim = artifact(direction(endpoint, expect, test="sign"))
    found = only(claim, runs)
    assert (found.verdict, found.parts[0].diverged, found.effect) == (HOLDS, 1, None)
    assert found.parts[0].cells[1]["values"][0] == "diverged"
    assert verdict(artifact(direction(endpoint, expect)), runs) == "undecided", "it has no mean"
    runs[1] = replace(runs[1], status="diverged", records=runs[1].records[:1])  # now ln, seed 1 as well
    assert verdict(claim, runs) == "undecided"
    infinite = [*arms(-1.0)[2:], final_run("bn", 1, "Infinity"), final_run("ln", 1, 1.0)]
    assert only(artifact(direction()), infinite).parts[0].diverged == 1
    late = times(4, 4, 4, 4, 5)
    late[0] = replace(late[0], status="diverged")  # after it had reached the level
    (part,) = only(artifact(direction(TIME, scale="log")), late).parts
    assert (part.word, part.diverged) == ("holds", 1)


def test_the_order_of_a_lost_run_is_known_over_any_number_of_cells() -> None:
    cells = [{"arm": arm} for arm in ("a", "b", "c", "d")]
    contrast = tuple(zip((1.0, -1.0, -1.0, 1.0), cells, strict=True))
    runs = [final_run(arm, s, float(ord(arm) ** 2) + (arm == "d") * JITTER[s]) for s in range(10) for arm in "abcd"]
    claim = artifact(direction(contrast=contrast, expect="positive", test="sign"))
    assert verdict(claim, runs) == HOLDS
    for places, counts in (("a", (10, 0)), ("ad", (10, 0)), ("b", (9, 1)), ("ab", (9, 0))):  # the last: not known
        lost = [replace(run, status="diverged") if run.arm in places else run for run in runs[:4]]
        test = only(claim, [*lost, *runs[4:]]).parts[0].sign_test
        assert (test["above"], test["below"]) == counts, places


def test_the_signed_rank_test_decides_nothing() -> None:
    equal_pairs = [(54.2, 54.1), (54.5, 54.4), (54.1, 54.3)]  # two effects of 0.1, which rounding tells apart
    runs = [
        final_run(arm, s, v) for s, pair in enumerate(equal_pairs) for arm, v in zip(("ln", "bn"), pair, strict=True)
    ]
    for part, given_runs, word, p in (
        (direction(), OUTLIER, "undecided", 0.03125),
        (direction(), arms(-1.0, status="diverged"), "undecided", None),
        (direction(), runs, "undecided", 1.0),
        (size(3.0, 1.0), arms(-1.0), "fails", None),
    ):
        found = only(artifact(part, kind=part.kind), given_runs).parts[0]
        assert (found.word, found.signed_rank) == (word, p)


# --- several parts ---------------------------------------------------------------------------------------------------


def at(size: int, name: str, **more: Any) -> Part:
    return direction(name=name, contrast=((1.0, {**LN, "b": size}), (-1.0, {**BN, "b": size})), **more)


@pytest.mark.parametrize(
    ("first", "second", "word", "shown"),
    [
        (-1.0, -1.0, HOLDS, 0),
        (-1.0, 0.05, "undecided", 1),
        (-1.0, 2.0, FAILS, 1),
        (1.0, 2.0, FAILS, 0),
        (0.34, 2.0, FAILS, 1),  # p = 0.03 is no evidence of one of two
        (0.0, 0.1, "undecided", 0),
        (0.34, -1.0, "undecided", 0),  # what speaks against it
        (None, -1.0, "untested (not run)", 0),
    ],
)
def test_all_parts_must_hold_and_the_one_that_decides_is_shown(
    first: float | None, second: float, word: str, shown: int
) -> None:
    runs = [*(arms(first, axes={"b": 128}) if first is not None else []), *arms(second, axes={"b": 4})]
    found = only(artifact(at(128, "a"), at(4, "b")), runs)
    assert (found.verdict, found.deciding) == (word, shown)
    assert found.effect == found.parts[shown].effect


@pytest.mark.parametrize(
    ("part", "runs"),
    [
        (direction(), arms(0.34)),  # p = 0.03
        (equal(0.01), arms(0.34)),
        (size(-0.35, 9.0), arms(0.34, spread=0.9)),
        (replace(SIGN, expect="positive"), REACHED + NEVER),
    ],
)  # fmt: skip
def test_one_of_several_parts_refutes_at_a_level_that_counts_them(part: Part, runs: list[Run]) -> None:
    """Any of k parts may refute the claim: each at 5 %, a true one of 16 parts would be refuted half of the time."""
    assert verdict(artifact(part, kind=part.kind), runs) == FAILS
    found = only(artifact(*(replace(part, id=str(i)) for i in range(8)), kind=part.kind), runs)
    assert found.verdict == "undecided" and found.parts[0].word == "fails"


def test_reported_parts_never_decide() -> None:
    found = only(artifact(direction(), reported=(direction(expect="positive", name="r"),)), arms(-1.0))
    assert found.verdict == HOLDS and found.reported[0].word == "fails"


# --- seeds, looks and fidelities -------------------------------------------------------------------------------------


def alone(**seeds: Range) -> Artifact:
    claim = artifact(direction())
    return replace(claim, claims=(replace(claim.claims[0], seeds=seeds),))


FRESH = alone(paper=Range(6, 10))
LOOKS = artifact(direction(), looks=Looks((5, 8)))
LOOKED = Amendment("C1", "c", "r", {"paper": Range(1, 5)})


@pytest.mark.parametrize(
    ("claim", "runs", "plan", "word", "seeds"),
    [
        (artifact(direction()), [*arms(-9.0), *fresh(arms(0.1))], Plan(10), HOLDS, range(1, 11)),
        (FRESH, [*arms(-9.0), *fresh(arms(0.1))], Plan(10), "undecided", range(6, 11)),
        (FRESH, arms(-9.0), Plan(10), "untested (not run)", ()),
        (alone(smoke=range(6, 11)), arms(-9.0), Plan(5), HOLDS, range(1, 6)),
        (artifact(direction()), arms(-1.0, n=9), Plan(10), "undecided", range(1, 10)),
        (artifact(direction()), arms(-1.0, n=10), Plan(10), HOLDS, range(1, 11)),
        (artifact(direction()), [*arms(-0.1), *arms(-1.0, n=10)[10:]], Plan(5), "undecided", range(1, 6)),
        (replace(artifact(direction()), seen=1), arms(-0.5), Plan(5, delta=1.0), "undecided", range(1, 6)),
        (replace(FRESH, seen=5), fresh(arms(-0.5)), Plan(10, delta=1.0), "negligible · nothing open", range(6, 11)),
        (replace(FRESH, seen=6), fresh(arms(-0.5)), Plan(10, delta=1.0), "undecided", range(6, 11)),
        (artifact(direction()), arms(-0.235, n=8), Plan(8), HOLDS, range(1, 9)),
        (LOOKS, arms(-0.3, n=8), Plan(8), HOLDS, range(1, 9)),
        (LOOKS, arms(-0.3, n=7), Plan(8), "undecided", range(1, 6)),
        (LOOKS, arms(-0.3, n=4), Plan(8), "undecided", range(1, 5)),
        (replace(LOOKS, amendments=(LOOKED,)), arms(-0.235, n=8), Plan(8), "undecided", range(1, 9)),
        (replace(artifact(direction()), amendments=(LOOKED,)), arms(-0.235, n=8), Plan(8), "undecided", range(1, 9)),
        (replace(artifact(direction()), amendments=(LOOKED,)), arms(-0.1, n=8), Plan(8, delta=1.0), "undecided",
         range(1, 9)),
    ],
)  # fmt: skip
def test_planned_seeds_count_all_of_them_and_no_others(
    claim: Artifact, runs: list[Run], plan: Plan, word: str, seeds: Sequence[int]
) -> None:
    found = only(claim, runs, planned=plan)
    assert (found.verdict, found.parts[0].seeds) == (word, tuple(seeds))


def test_the_levels_of_looks() -> None:
    first, second = (level_at(n, (5, 8), 0.05, "obrien-fleming") for n in (5, 8))
    for n, level, look, spent in ((4, None, 0, 0), (7, 1 - first, 1, 0.05), (8, 1 - second, 2, 0.05)):
        found = only(LOOKS, arms(-0.235, n=n), planned=Plan(8))
        assert (found.look, found.looks, found.spent) == (look, (5, 8), spent)
        assert found.level == (level and pytest.approx(level, rel=1e-6))
        assert (found.interval is None) == (n == 4)
    again = only(replace(artifact(direction()), amendments=(LOOKED,)), arms(-0.235, n=8), planned=Plan(8))
    assert (again.level, again.alpha, again.spent) == (0.975, 0.025, pytest.approx(0.075))
    one = artifact(direction(), direction(name="q"))
    many = replace(one, claims=tuple(replace(one.claims[0], id=name) for name in "abc"))
    for effect, n, wrong in ((-1.0, 5, 0.15), (0.0, 5, 0.15), (-1.0, 4, 0)):  # an undecided one could have been wrong
        assert judge(many, arms(effect, n=n), "paper").expected_wrong == wrong
    undecidable = artifact(direction(), not_decidable={"paper": "too short"})
    assert judge(undecidable, arms(-1.0), "paper").expected_wrong == 0


@pytest.mark.parametrize(
    ("claim", "fidelity", "n", "spent"),
    [
        ("C1", "paper", 5, 0.1),
        ("C1", "paper", 4, 0.0),  # a claim without a word cannot be wrong
        ("C1", "proxy", 5, 0.05),
        ("C2", "paper", 5, 0.05),
    ],
)
def test_a_word_on_other_seeds_before_an_amendment_counts(claim: str, fidelity: str, n: int, spent: float) -> None:
    looked, plain = Amendment(claim, "c", "r", {fidelity: Range(11, 15)}), Amendment("C1", "c", "r")
    amended = replace(artifact(direction()), amendments=(looked, plain))
    found = judge(amended, arms(-1.0, n=n), "paper")
    assert (found.claims[0].spent, found.expected_wrong) == (spent, spent)


@pytest.mark.parametrize("fidelity", ["reduced", "proxy", "smoke"])
def test_below_paper_fidelity_the_words_are_weaker(fidelity: str) -> None:
    claim, opened = artifact(direction()), artifact(direction(), open=["learning rate"])
    for effect, word in ((-1.0, f"holds · {fidelity} · nothing open"), (0.0, f"undecided · {fidelity}")):
        assert verdict(claim, arms(effect, fidelity=fidelity), fidelity) == word
    assert verdict(opened, arms(-1.0, fidelity=fidelity), fidelity) == f"holds · {fidelity} · controls not run"
    assert verdict(claim, [], fidelity) == "untested (not run)"
    undecidable = only(artifact(direction(), not_decidable={fidelity: "too few"}), arms(-1.0), fidelity)
    assert (undecidable.verdict, undecidable.undecidable) == ("untested (not decidable here)", "too few")
    compared_size = only(artifact(size(-1.0, 9.0), kind="size"), arms(-1.0), fidelity)
    why = "less training" if fidelity == "reduced" else "other data"
    assert (compared_size.reason, compared_size.parts[0].why) == ("not decidable here", why)


# --- controls --------------------------------------------------------------------------------------------------------

AGREE = "holds · controls agree"
NOT_RUN = "holds · controls not run"
DEPEND = "holds · controls depend"
OPEN = "holds · controls undecided"


@pytest.mark.parametrize(
    ("controls", "unvaried", "word"),
    [
        ([], (), NOT_RUN),
        ([*LOW(-1.0)], (), NOT_RUN),
        ([*LOW(-1.0), *HIGH(-1.0, n=4)], (), NOT_RUN),
        ([*LOW(-1.0), *HIGH(-1.0)], (), AGREE),
        ([*LOW(-1.0), *HIGH(-1.0)], ("task",), NOT_RUN),
        ([*LOW(-1.0), *HIGH(1.0)], ("task",), DEPEND),  # what differs is known, whatever else is open
        ([*LOW(-1.0), *HIGH(1.0)], (), DEPEND),
        ([*LOW(-1.0), *HIGH(0.0)], (), OPEN),
    ],
)
def test_controls_agree_where_every_one_has_its_seeds_and_the_same_word(
    controls: list[Run], unvaried: tuple[str, ...], word: str
) -> None:
    claim = artifact(direction(), open=["learning rate", "task"], unvaried=unvaried)
    assert verdict(claim, arms(-1.0) + controls) == word
    mirrored = artifact(direction(expect="positive"), open=["learning rate", "task"], unvaried=unvaried)
    assert verdict(mirrored, arms(-1.0) + controls) == word.replace("holds", "fails")
    assert verdict(claim, arms(0.0) + controls) == "undecided"


def test_a_control_has_its_own_deciding_part_and_seeds() -> None:
    sure, turns = direction(name="sure"), direction(name="turns", contrast=((1.0, {"arm": "rms"}), (-1.0, BN)))

    def runs(control: str, effect: float) -> list[Run]:
        others = [
            replace(run, arm="rms", id=f"rms-{run.id}") for run in arms(effect, control=control) if run.arm == "ln"
        ]
        return arms(-1.0, control=control) + others

    found = only(artifact(sure, turns, open=["rate"]), [*runs("", -1.0), *runs("lr-low", -2.0), *runs("lr-high", 3.0)])
    assert found.robustness == "depend" and [c.deciding for c in found.controls] == [0, 1]
    own = artifact(direction(), open=["rate"], control_seeds={"lr-high": {"paper": Range(6, 10)}})
    late = fresh(HIGH(-1.0))
    found = only(own, [*arms(-1.0), *LOW(-1.0), *HIGH(0.0), *late], planned=Plan(5, 10))
    assert found.alone == {"lr-high": (6, 10)} and found.controls[1].word == "holds"
    assert found.controls[1].parts[0].seeds == (6, 7, 8, 9, 10)


def test_a_negligible_claim_rests_on_the_same_part_everywhere() -> None:
    a, b = (direction(name=name, delta=Delta(delta, "w")) for name, delta in (("a", 1.5), ("b", 0.7)))
    claim = artifact(a, b, open=["rate"])
    found = only(claim, [*arms(0.0), *LOW(0.0), *HIGH(-0.6)])
    assert (found.verdict, found.share) == ("negligible · controls agree", 1) and [c.share for c in found.controls] == [
        2,
        1,
    ]
    here, there = (
        direction(name=arm, contrast=((1.0, {"arm": arm}), (-1.0, BN)), delta=Delta(0.7, "w")) for arm in ("rms", "ada")
    )

    def runs(control: str, rms: float, ada: float) -> list[Run]:
        made = {arm: arms(effect, control=control) for arm, effect in (("rms", rms), ("ada", ada))}
        others = [replace(r, arm=arm, id=f"{arm}-{r.id}") for arm, own in made.items() for r in own if r.arm == "ln"]
        return [run for run in made["rms"] if run.arm != "ln"] + others

    every = runs("", 0.0, -0.6) + runs("lr-low", 0.0, -0.6) + runs("lr-high", -0.6, 0.0)
    found = only(artifact(here, there, open=["rate"]), every)
    assert found.verdict == "negligible · controls undecided" and found.share == 1 and found.scattered


# --- the whole file --------------------------------------------------------------------------------------------------


def test_a_cell_that_mixes_settings_is_refused() -> None:
    with pytest.raises(NormbenchError, match="two runs of seed 1"):
        judge(artifact(direction()), [*arms(-1.0, axes={"b": 4}), *arms(-1.0, axes={"b": 128})], "paper")


def test_changed_claims_without_an_amendment_are_noted_until_amended() -> None:
    claim = artifact(direction())
    first = judge(claim, arms(-1.0), "paper")
    assert first.note == "" and judge(claim, arms(-1.0), "paper", first).note == ""
    changed = replace(claim, claims_sha256="b" * 64)
    second = judge(changed, arms(-1.0), "paper", first)
    assert second.note and judge(changed, arms(-1.0), "paper", second).note == second.note
    amended = replace(changed, amendments=(Amendment("C1", "x", "y"),))
    third = judge(amended, arms(-1.0), "paper", second)
    assert third.note == "" and third.claims[0].amendments == amended.amendments
    assert judge(replace(amended, claims_sha256="c" * 64), arms(-1.0), "paper", third).note != ""


def test_copies_of_the_data_are_among_the_deviations() -> None:
    line, other = "CIFAR-10: 3 of the 90 images are approximate (2 train, 1 test)", "CIFAR-10: another order"
    official, copy = ({"data": {"sha256": "0", "deviations": lines}} for lines in ([], [line]))
    resumed = {**official, "resumed": [{"step": 3, "changed": copy | {"data": {"deviations": [line, other]}}}, {}]}

    def deviations(*environments: Mapping[str, Any]) -> list[str]:
        runs = [replace(final_run("ln", seed, 0.1), environment=e) for seed, e in enumerate(environments)]
        return list(judge(artifact(direction()), runs, "paper").deviations)

    assert deviations({}, official) == ["d"]
    assert deviations(copy, copy) == ["d", line]
    assert deviations(copy, official, resumed, {}) == ["d", f"{line}, in 2 of 4 runs", f"{other}, in 1 of 4 runs"]


_values = st.lists(st.floats(0.01, 10.0), min_size=4, max_size=8)


@given(_values, _values, st.randoms(use_true_random=False), st.booleans())
def test_the_order_of_runs_never_matters_and_signs_flip(
    ln: list[float], bn: list[float], shuffler: random.Random, censored: bool
) -> None:
    build = (lambda a, s, v: timed_run(a, s, int(v), epochs=7)) if censored else final_run
    pairs = [("ln", *pair) for pair in enumerate(ln)] + [("bn", *pair) for pair in enumerate(bn)]
    runs = [build(*pair) for pair in pairs]
    part = direction(
        TIME if censored else ERROR, scale="log" if censored else "linear", test="sign" if censored else "t"
    )
    expected = judge(artifact(part), runs, "paper")
    shuffler.shuffle(runs)
    assert judge(artifact(part), runs, "paper") == expected
    swapped = [build("bn" if arm == "ln" else "ln", seed, value) for arm, seed, value in pairs]
    flip = {"holds": "fails", "fails": "holds", "undecided": "undecided"}[expected.claims[0].parts[0].word]
    for other, given_runs in (
        (part, swapped),
        (replace(part, contrast=((-1.0, LN), (1.0, BN))), runs),
        (replace(part, expect="positive"), runs),
    ):
        assert only(artifact(other), given_runs).parts[0].word == flip
