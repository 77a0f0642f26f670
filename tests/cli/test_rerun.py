"""`normbench rerun`: what it compares with, what it prints, how it ends. That it repeats a run is in test_commands."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import fake
import numpy as np
import pytest
import tiny

from normbench.commands.rerun import DIFFERENT, EQUAL, EXPLAINED, ROUNDING, compare
from normbench.config.plan import train_specs
from normbench.runs import pack
from normbench.runs.run import Run

PACK = Path("results") / "paper2020" / "fig" / "paper" / pack.NAME


def test_against_the_runs_that_differ_in_the_seed_alone(normbench, capfd, tmp_path: Path):
    (spec, *others) = fake.specs(5)
    others.append(tiny.spec("seed=9", "optim.lr=0.5"))  # the same labels
    runs = [fake.record(spec), *(fake.record(other, value=0.5 + other.seed / 1e3) for other in others)]
    pack.write(tmp_path / PACK, runs)
    assert normbench("rerun", spec.id, "--epochs", "1", "--json") == 4
    answer = json.loads(capfd.readouterr().out)
    assert answer["word"] == DIFFERENT and not answer["same_environment"] and answer["seeds"] == [1, 2, 3, 4, 5]
    assert answer["updates"] == {"compared": spec.steps // 2, "of": spec.steps}
    rows = {row["metric"]: row for row in answer["metrics"]}
    assert rows["test eval nll"]["values"] == 2 and 0 < rows["test eval nll"]["range"] < 0.05
    assert rows["valid eval nll"]["missing"] and rows["valid eval nll"]["range"] is None


def test_how_much_of_a_run_is_compared_is_reported_and_more_than_it_has_is_refused(normbench, capfd, tmp_path: Path):
    (spec,) = fake.specs(1)
    pack.write(tmp_path / PACK, [fake.record(spec)])
    assert normbench("rerun", spec.id, "--epochs", "1") == 4
    out = capfd.readouterr().out
    assert f"run {spec.id}, {spec.steps // 2} of {spec.steps} updates, in another environment: different\n" in out
    assert out.startswith(f"{spec.id} again, to compare with {tmp_path / PACK}\n"), "published, or one's own"
    assert normbench("rerun", spec.id, "--epochs", "99999") == 2
    assert f"run {spec.id} has no first part of that length" in capfd.readouterr().err
    assert normbench("rerun", spec.id, "--steps", "1") == 2, "no evaluation after training is within it"
    assert f"Give --steps {spec.steps // 2}, or more." in capfd.readouterr().err


@pytest.mark.parametrize("evaluated", [0, 1])
def test_a_part_that_may_end_after_a_run_diverged_is_refused(normbench, capfd, tmp_path: Path, evaluated: int):
    (spec,) = fake.specs(1)
    run = fake.record(spec, status="diverged")
    last = evaluated * spec.steps // 2
    records = [record for record in run.records if record["step"] <= last]
    pack.write(tmp_path / PACK, [replace(run, records=records, steps=spec.steps)])
    assert normbench("rerun", spec.id, "--steps", str(last + 1)) == 2
    err = capfd.readouterr().err
    assert f"diverged after its evaluation at {last} updates: leave out --epochs and --steps" in err
    assert (f", or give --steps {last} or fewer." in err) == bool(last)
    if last:
        assert normbench("rerun", spec.id, "--steps", str(last), "--json") == 4
        assert json.loads(capfd.readouterr().out)["ended"] == ["done", "done"]


def test_a_probe_is_repeated_whole(normbench, tmp_path: Path):
    (probe,) = train_specs(["model=bln_weights", "norm=batch_layer"], False)
    pack.write(tmp_path / PACK, [fake.record(probe, epochs=1)])
    assert normbench("rerun", probe.id, "--epochs", "1") == 2


def curve(*losses: Any, seed: int = 1, processor: str = "EPYC", status: str = "done") -> Run:
    records = [{"epoch": e, "step": 10 * e, "split": "test", "mode": "eval", "nll": x} for e, x in enumerate(losses)]
    steps = 10 * (len(losses) - 1)
    environment = {"processor": processor}
    return Run("r", "e", "ln", seed, status, len(losses) - 1, records=records, steps=steps, environment=environment)


THEN = curve(2.3, 1.0, 0.5)
SEEDS = [curve(2.3, 1.0 + k / 10, 0.5 + k / 10, seed=4 + round(k)) for k in (-1, 0.01, 1)]


@pytest.mark.parametrize(
    ("losses", "word"),
    [
        ((2.3, 1.0, 0.5), EQUAL),
        ((2.3, 1.0 - 0.99 * ROUNDING, 0.5), EXPLAINED),
        ((2.3, 1.0, 0.7), EXPLAINED),  # the seeds go from 0.4 to 0.6, and one more could lie there
        ((2.3, 1.0, 1.3), DIFFERENT),
        ((2.3, 1.0, 0.0), DIFFERENT),
        ((2.2, 1.0, 0.5), DIFFERENT),  # the seeds begin alike
        ((2.2, 1.0, 0.7), DIFFERENT),  # and the larger difference, which they explain, hides none
        ((2.3, 1.0, "NaN"), DIFFERENT),
    ],
)
def test_what_another_environment_explains(losses: Sequence[Any], word: str):
    now = curve(*losses, processor="Xeon")
    assert compare(THEN, now, SEEDS)["word"] == word
    assert compare(THEN, replace(now, environment=THEN.environment), SEEDS)["word"] == (
        EQUAL if word == EQUAL else DIFFERENT
    )
    assert compare(THEN, replace(now, status="diverged"), SEEDS)["word"] == DIFFERENT


def test_the_difference_beyond_the_seeds_is_shown_before_a_larger_one_within_them():
    (row,) = compare(THEN, curve(2.2, 1.0, 0.6, processor="Xeon"), SEEDS)["metrics"]
    assert row["at"] == "epoch 0, step 0" and row["range"] == 0 and row["beyond"] == 1


def test_a_missing_value_hides_no_difference():
    (row,) = compare(THEN, curve(2.3, "NaN", 0.7, processor="Xeon"), SEEDS)["metrics"]
    assert (row["missing"], row["beyond"], row["at"]) == (1, 1, "epoch 2, step 20")
    assert row["difference"] == pytest.approx(0.2 / 0.7)
    then, *seeds = (curve(0.5 + k / 10, 1.0, 2.3, seed=3 + k) for k in (0, -1, 1, 2))
    (row,) = compare(then, curve(0.7, "NaN", 2.0, processor="Xeon"), seeds)["metrics"]
    assert (row["beyond"], row["at"], row["range"]) == (2, "epoch 2, step 20", 0), "the larger one at 0 is within"


def test_an_evaluation_that_only_one_has_is_beyond_unless_it_was_made_at_the_best_or_a_seed_is_like_it():
    now = curve(2.3, 1.0 - 0.5 * ROUNDING, 0.5, processor="Xeon")
    without = replace(now, records=[now.records[0], now.records[2]])
    assert compare(THEN, without, SEEDS)["word"] == EXPLAINED, "test sets are evaluated where validation is best"
    as_valid = [replace(run, records=[{**r, "split": "valid"} for r in run.records]) for run in (THEN, without, *SEEDS)]
    then, without, *seeds = as_valid
    (row,) = compare(then, without, seeds)["metrics"]
    assert (row["missing"], row["beyond"], compare(then, without, seeds)["word"]) == (1, 1, DIFFERENT)
    like = replace(without, seed=9, environment=THEN.environment)
    assert compare(then, without, [*seeds, like])["word"] == EXPLAINED
    lost = curve(2.3, 1.0, "NaN", processor="Xeon")
    assert compare(THEN, lost, [*SEEDS, curve(2.3, 1.0, "Infinity", seed=9)])["word"] == EXPLAINED


def test_a_test_set_evaluated_where_seeds_have_no_best_is_not_predicted():
    now = curve(2.3, 1.3, 0.5, processor="Xeon")
    seeds = [replace(seed, records=[seed.records[0], seed.records[2]]) for seed in SEEDS]
    assert compare(THEN, now, seeds)["word"] == EXPLAINED
    assert compare(THEN, now, seeds[:2])["word"] == DIFFERENT, "too few seeds to know what they differ by"
    valid = [replace(run, records=[{**r, "split": "valid"} for r in run.records]) for run in (THEN, now, *seeds)]
    assert compare(valid[0], valid[1], valid[2:])["word"] == DIFFERENT


def test_counted_examples_that_all_seeds_have_alike_may_differ_by_a_few():
    """An error of 1000 examples, 0.001 at the end of all seeds: one example more or less is no difference."""
    then, *seeds = (curve(0.9, 0.1 + k / 1000, 0.001, seed=k) for k in range(5))
    for error, word in ((0.0, EXPLAINED), (0.002, EXPLAINED), (0.003, EXPLAINED), (0.1, DIFFERENT)):
        assert compare(then, curve(0.9, 0.1, error, processor="Xeon"), seeds)["word"] == word, error
    constant = [curve(2.3, 2.3, seed=k) for k in range(5)]
    assert compare(constant[0], curve(2.3, 2.2, processor="Xeon"), constant[1:])["word"] == DIFFERENT


@pytest.mark.parametrize("others", [3, 9])
def test_a_run_like_those_of_other_seeds_is_seldom_called_different(others: int):
    random = np.random.default_rng(others)
    words = []
    for _ in range(100):
        then, now, *seeds = (curve(*np.exp(random.normal(size=20)), processor=str(k)) for k in range(2 + others))
        words.append(compare(then, now, seeds)["word"])
    assert words.count(DIFFERENT) <= 10, "5 % of them"
    far = curve(*now.records.blocks[0].columns["nll"][:-1], 1e40)
    assert compare(then, far, seeds)["word"] == DIFFERENT


@pytest.mark.parametrize(("step", "word"), [(10, EXPLAINED), (20, DIFFERENT)])
def test_a_run_that_was_resumed_in_another_environment_had_both(step: int, word: str):
    resumed = [{"step": step, "changed": {"processor": "Xeon"}}]
    then = replace(THEN, environment={**THEN.environment, "resumed": resumed})
    answer = compare(then, curve(2.3, 1.0 - 0.5 * ROUNDING, 0.5), [])
    assert answer["word"] == word and answer["same_environment"] == (word == DIFFERENT)


def test_too_few_seeds_have_no_range():
    now = curve(2.3, 1.01, 0.5, processor="Xeon")
    (row,) = compare(THEN, now, SEEDS)["metrics"]
    assert row["difference"] == pytest.approx(0.01 / 1.01) and row["range"] == pytest.approx(0.2 / 1.1)
    assert (row["values"], row["missing"], row["at"]) == (3, 0, "epoch 1, step 10")
    fewer = compare(THEN, now, [SEEDS[0], SEEDS[1], curve(2.3, "NaN", 0.5, seed=4)])
    assert fewer["word"] == DIFFERENT and fewer["metrics"][0]["range"] is None


def test_a_metric_is_compared_over_its_variants():
    records = [{**record, "variant": {"configuration": "T1"}} for record in THEN.records]
    now = replace(THEN, records=[*THEN.records, *records], environment={})
    assert compare(now, now, [])["word"] == EQUAL
    assert [row["missing"] for row in compare(THEN, now, [])["metrics"]] == [3]


def test_a_shorter_repetition_is_compared_as_far_as_it_goes():
    last = {
        "epoch": 1,
        "step": 10,
        "split": "test 2x",
        "mode": "eval",
        "nll": 0.9,
    }  # evaluated at its last update alone
    now = replace(curve(2.3, 1.0), records=[*THEN.records[:2], last])
    assert compare(THEN, now, [])["word"] == EQUAL
    assert compare(THEN, replace(now, records=now.records[:1]), [])["word"] == DIFFERENT
