"""Records into series, end points and mean curves."""

import itertools
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from normbench.core.eval_variants import text
from normbench.runs.run import Run
from normbench.stats.series import (
    Censored,
    Point,
    Reached,
    Series,
    aggregate,
    area,
    at_epoch,
    best_step,
    exploded,
    final,
    in_orders,
    series,
    time_to_level,
    variants,
)

MONITOR = {"split": "valid", "metric": "nll", "goal": "min"}


def record(epoch: float, value: Any, mode: str = "eval", split: str = "train", **more: Any) -> dict[str, Any]:
    return {"epoch": epoch, "split": split, "mode": mode, "nll": value, "step": int(epoch * 10), **more}


def make_run(records: list[dict[str, Any]], seed: int = 0, status: str = "done", epochs: int = 2) -> Run:
    config = {"eval": {"also_at_best": ["populations=recalibrated"]}, "monitor": MONITOR}
    return Run(f"r{seed}", "e", "ln", seed, status, epochs, records=records, config=config)


def crossing(points: Series, level: float, log: bool = True) -> float:
    found = time_to_level(points, level, log)
    assert isinstance(found, Reached)
    return found.x


def test_series_selects_split_mode_metric_and_variant() -> None:
    run = make_run(
        [
            record(0, 2.0),
            record(0, 2.1, "train"),
            record(1, 1.5, "running"),
            record(1, 1.0, error=0.5),
            record(1, 0.9, split="test"),
            record(1, 0.8, variant={"momentum": 0.01}),
        ]
    )
    assert series(run, "train", "eval", "nll") == [(0, 2.0), (1, 1.0)]
    assert series(run, "train", "train", "nll") == [(0, 2.1)]
    assert series(run, "train", "running", "nll") == [(1, 1.5)]
    assert series(run, "train", "eval", "error") == [(1, 0.5)]
    assert series(run, "train", "eval", "nll", variant="momentum=0.01") == [(1, 0.8)]
    assert series(run, "train", "eval", "accuracy") == []


def test_mode_both_stands_for_evaluation_and_training_but_not_for_the_running_mean() -> None:
    run = make_run([record(1, 1.0, "both"), record(0, 2.0, "both"), record(1, 1.2, "running")])
    assert series(run, "train", "eval", "nll") == series(run, "train", "train", "nll") == [(0, 2.0), (1, 1.0)]
    assert series(run, "train", "running", "nll") == [(1, 1.2)]


def test_non_finite_values_are_read_from_their_names() -> None:
    run = make_run([record(0, "NaN"), record(1, "Infinity"), record(2, "-Infinity")])
    values = [value for _, value in series(run, "train", "eval", "nll")]
    assert math.isnan(values[0]) and values[1:] == [math.inf, -math.inf]


def test_final_is_the_value_at_the_epoch_that_was_asked_for() -> None:
    run = make_run([record(0, 2.0), record(1, 1.0), record(2, 0.5), record(2, 0.4, split="test")])
    assert final(run, "train", "eval", "nll") == 0.5
    assert final(run, "test", "eval", "nll") == 0.4
    assert final(make_run([record(0, 2.0), record(1, 1.0)]), "train", "eval", "nll") is None


def test_time_to_level_interpolates_losses_on_their_logarithm() -> None:
    points: Series = [(0, 1.0), (2, 1e-2), (4, 1e-6)]
    assert crossing(points, 1e-1) == pytest.approx(1.0)
    assert crossing(points, 1e-4) == pytest.approx(3.0)
    assert time_to_level(points, 1e-2) == Reached(2)
    assert crossing(points, 0.505, log=False) == pytest.approx(1.0)


def test_time_to_level_takes_the_first_crossing_and_censors() -> None:
    assert time_to_level([(0, 1.0), (1, 0.1), (2, 1.0), (3, 0.01)], 0.1) == Reached(1)
    assert time_to_level([(0, 1.0), (1, 0.2)], 0.1) == Censored(1)
    assert time_to_level([(0, 0.05), (1, 0.2)], 0.1) == Reached(0)
    with pytest.raises(ValueError):
        time_to_level([], 0.1)


def test_a_run_that_diverged_before_is_censored_at_its_last_finite_evaluation() -> None:
    assert time_to_level([(0, 1.0), (1, 0.5), (2, math.nan)], 0.1) == Censored(1)
    assert time_to_level([(0, math.inf)], 0.1) == Censored(0)
    assert time_to_level([(0, 1.0), (1, -math.inf)], 0.1) == Censored(0)
    assert time_to_level([(0, 1.0), (1, math.inf), (2, 0.1)], 0.1) == Reached(2)


def test_a_loss_of_exactly_zero_is_reached_in_between() -> None:
    assert crossing([(0, 1.0), (1, 0.0)], 1e-6) == pytest.approx(0.5)  # the logarithm ends at 1e-12
    assert time_to_level([(0, 1e-13), (1, 0.0)], 1e-14) == Reached(1)


@given(st.lists(st.floats(1e-9, 10.0), min_size=1, max_size=12), st.floats(1e-9, 10.0), st.booleans())
def test_time_to_level_lies_between_the_two_evaluations_around_it(values: list[float], level: float, log: bool) -> None:
    found = time_to_level(list(enumerate(values)), level, log)
    first = next((epoch for epoch, value in enumerate(values) if value <= level), None)
    if first is None:
        assert found == Censored(len(values) - 1)
    else:
        assert isinstance(found, Reached) and max(0, first - 1) <= found.x <= first


def test_aggregate_is_mean_and_interval_over_seeds() -> None:
    runs = [make_run([record(0, 2.0), record(1, value)], seed) for seed, value in enumerate((1.0, 2.0, 3.0))]
    start, end = aggregate(runs, "train", "eval", "nll")
    assert start == Point(0, 2.0, (2.0, 2.0), 3, 0)
    assert (end.mean, end.n) == (2.0, 3)
    assert end.interval == pytest.approx((2 - 4.302653 / math.sqrt(3), 2 + 4.302653 / math.sqrt(3)))


def test_aggregate_for_log_axes_is_the_geometric_mean_with_positive_ends() -> None:
    runs = [make_run([record(1, value)], seed) for seed, value in enumerate((1e-4, 1e-2))]
    (point,) = aggregate(runs, "train", "eval", "nll", log=True)
    assert point.mean == pytest.approx(1e-3)
    assert point.interval is not None and 0 < point.interval[0] < point.interval[1]


def test_diverged_runs_are_counted_from_the_epoch_on_that_they_lack() -> None:
    runs = [
        make_run([record(0, 2.0), record(1, 1.0), record(2, 0.5)], 0),
        make_run([record(0, 2.2), record(1, "NaN")], 1, status="diverged"),
        make_run([record(0, 2.4)], 2, status="diverged"),
    ]
    assert [(p.n, p.diverged) for p in aggregate(runs, "train", "eval", "nll")] == [(3, 0), (1, 2), (1, 2)]
    assert aggregate(runs, "train", "eval", "nll")[1].interval is None
    assert aggregate([], "train", "eval", "nll") == []


def test_a_run_that_was_not_evaluated_at_an_epoch_is_not_called_diverged() -> None:
    runs = [make_run([record(0, 2.0), record(2, 1.0)], 0), make_run([record(1, 2.0), record(2, 0.5)], 1)]
    assert [(p.n, p.diverged) for p in aggregate(runs, "train", "eval", "nll")] == [(1, 0), (1, 0), (2, 0)]


def test_the_area_is_a_mean_over_epochs_of_training() -> None:
    points: Series = [(0, 99.0), (1, 1.0), (2, 4.0)]
    assert area(points, log=False) == 2.5
    assert area(points, log=True) == pytest.approx(2.0)
    assert area([(0, 1.0)], log=True) is None
    assert math.isnan(area([(0, 1.0), (1, math.nan)], log=True) or 0.0)


NAMES = [*(f"configuration={way}" for way in ("TTFF", "TTTT", "FTTT")), "configuration=TTFF populations=recalibrated"]


def several_variants() -> Run:
    """Validation says epoch 2; TTFF alone says epoch 3."""
    records = []
    for epoch, (usual, way, other) in enumerate([(9.0, 9.0, 9.0), (2.0, 3.0, 5.0), (1.0, 2.0, 6.0), (1.5, 1.0, 7.0)]):
        for split, shift in (("valid", 0.0), ("test", 0.5)):
            records.append(record(epoch, usual + shift, split=split))
            records.append(record(epoch, way + shift, split=split, variant={"configuration": "TTFF"}))
            records.append(record(epoch, other - shift, split=split, variant={"configuration": "TTTT"}))
            records.append(record(epoch, "NaN", split=split, variant={"configuration": "FTTT"}))
    ttff = {"configuration": "TTFF"}
    records += [record(2, 0.1 * k, split="test", variant=ttff, order=k) for k in (1, 2)]
    records += [record(2, 0.7, split="test", order=1), record(1, 0.9, split="test", order=1)]
    records += [record(2, 0.3, split="test", variant={**ttff, "populations": "recalibrated"})]
    return make_run(records, epochs=3)


def test_a_star_in_a_pattern_is_one_letter() -> None:
    """`*T**` is T in the second place, not anywhere."""
    names = ["".join(letters) for letters in itertools.product("TF", repeat=4)]
    records = [record(1, 2.0**k, split="test", variant={"configuration": name}) for k, name in enumerate(names)]
    run = make_run([record(1, 1.0, split="valid"), *records], epochs=1)
    for place, letter in itertools.product(range(4), "TF"):
        pattern = "*" * place + letter + "*" * (3 - place)
        wanted = [2.0**k for k, name in enumerate(names) if name[place] == letter]
        assert len(wanted) == 8 and at_epoch(run, "test", "nll", "best", pattern) == sum(wanted) / 8, pattern


def test_a_mean_over_variants_needs_all_of_them() -> None:
    usual = [record(epoch, value, split="valid") for epoch, value in ((0, 9.0), (1, 1.0))]
    there = [
        record(epoch, value, split="test", variant={"configuration": name})
        for epoch, value, name in ((1, 2.0, "TTFF"), (0, 3.0, "TTTT"))
    ]
    run = make_run([*usual, *there], epochs=1)
    assert at_epoch(run, "test", "nll", "best", "TTFF") == 2.0
    assert at_epoch(run, "test", "nll", "best", "TT**") is None, "TTTT was not evaluated there"


def test_the_best_is_one_of_training_and_the_first_of_equal_ones() -> None:
    def best(*values: Any) -> int | None:
        return best_step(make_run([record(epoch, value, split="valid") for epoch, value in enumerate(values)]))

    assert best(0.1, 2.0, 1.0, 1.5) == 20  # before training it may be lowest by chance
    assert best(9.0, 2.0, 1.0, 1.0) == 20
    assert best(9.0, "NaN", 3.0, "-Infinity") == 20
    assert best(0.1) is None


def test_variants_at_the_chosen_epoch() -> None:
    run = several_variants()
    assert list(map(text, variants(run))) == NAMES
    bests = [best_step(run), *(best_step(run, {"configuration": letters}) for letters in ("TTFF", "FTTT"))]
    assert bests == [20, 30, None]

    def test_nll(when: str | int, variant: str | None = None) -> float | None:
        return at_epoch(run, "test", "nll", when, variant)

    assert (test_nll("best"), test_nll("last"), test_nll(1)) == (1.5, 2.0, 2.5)
    assert (test_nll("best", "TTFF"), test_nll("own", "TTFF")) == (2.5, 1.5)
    assert test_nll("best", "TT**") == (2.5 + 5.5) / 2 and test_nll("best", "TTF*|TTT*") == (2.5 + 5.5) / 2
    assert math.isnan(test_nll("best", "*T**") or 0.0), "one of them is no number"
    assert (test_nll("best", "best by valid"), test_nll("best", "worst by valid")) == (2.5, 5.5)
    assert test_nll("best", "TT** populations=recalibrated") == 0.3
    assert test_nll("best", "best by test") == 2.5, "what is tried at the best alone is no candidate"
    assert test_nll("best", "FFFF") is None and test_nll(7) is None
    assert in_orders(run, "nll", "TTFF") == [0.1, 0.2] and in_orders(run, "nll") == [0.7]


def test_a_loss_that_ends_far_above_its_beginning_has_exploded() -> None:
    def found(*values: float, **monitor: str) -> tuple[float, float] | None:
        run = make_run([record(epoch, value, split="valid") for epoch, value in enumerate(values)])
        return exploded(replace(run, config={"monitor": {**MONITOR, **monitor}}))

    assert found(2.3, 0.1, 1e29) == (2.3, 1e29)
    assert found(2.3, 1e29, 0.1) is found(2.3, 5.7) is found() is None, "on the way, or overfitted"
    assert found(-2.0, 21.0) == (-2.0, 21.0) and found(-2.0, -1.0) is None
    assert found(2.3, 1e29, goal="max") is None
