"""How far apart two curves of one configuration are."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from normbench.runs.record import RunRecord
from normbench.stats.rerun_diff import BOUND, CHAOTIC, DIFFERENT, ROUNDING, TO_THE_BYTE, RerunDiff, Row, compare

HERE = {"processor": "A", "torch": "2.9", "instruction_set": "AVX512", "threads": 1, "device": "cpu"}
THERE = HERE | {"processor": "B"}


def record(epoch: int, nll: Any, split: str = "test", **more: Any) -> dict[str, Any]:
    return {"epoch": epoch, "step": 10 * epoch, "split": split, "mode": "eval", "nll": nll, **more}


def run(records: Sequence[Mapping[str, Any]], seed: int = 1, epochs: int = 3, **changes: Any) -> RunRecord:
    fields: dict[str, Any] = dict(status="done", epochs=epochs, steps=10 * epochs, records=records, environment=HERE)
    return RunRecord(f"r{seed}", "e", "ln", seed, **fields | changes)


def curve(*values: Any, **more: Any) -> RunRecord:
    return run([record(epoch, value) for epoch, value in enumerate(values)], epochs=len(values) - 1, **more)


def elsewhere(of: RunRecord) -> RunRecord:
    return replace(of, environment=THERE)


def word(then: RunRecord, now: RunRecord, others: Sequence[RunRecord] = ()) -> str:
    return compare(then, now, others).word


def rows(found: RerunDiff) -> dict[tuple[str, str], Row]:
    return {(row.split, row.metric): row for row in found.rows}


SEEDS = [curve(2.3, 1.0 + k / 10, 0.5 + k / 10, seed=2 + k) for k in (-1, 0, 1)]


def test_the_words() -> None:
    then = curve(2.3, 1.0, 0.5)
    same = compare(then, elsewhere(then), [])
    assert same.word == TO_THE_BYTE and same.deterministic and rows(same)["test", "nll"].word == TO_THE_BYTE
    assert word(then, elsewhere(curve(2.3, 1.0 * (1 + 9e-6), 0.5))) == ROUNDING
    chaotic = compare(then, elsewhere(curve(2.3, 1.05, 0.62)), SEEDS)
    (row,) = chaotic.rows
    assert (chaotic.word, row.beyond, row.judged, row.n, chaotic.seeds) == (CHAOTIC, 2, 2, 4, [1, 2, 3])
    assert chaotic.level == pytest.approx(1 - 0.05 / 3) and chaotic.changed == {"processor": ("A", "B")}
    different = compare(then, elsewhere(curve(2.3, 1.05, 5.0)), SEEDS)
    assert different.word == DIFFERENT and different.deterministic
    assert different.first and (different.first.place["epoch"], different.first.now) == (2, 5.0)


def test_the_bound_of_rounding() -> None:
    assert word(curve(1.0), elsewhere(curve(1 - 0.99 * BOUND))) == ROUNDING
    assert word(curve(1.0), elsewhere(curve(1 - 1.01 * BOUND))) == DIFFERENT
    # zero, and what rounding left in its place
    assert word(curve(0.0), elsewhere(curve(1e-15))) == word(curve(3e-16), elsewhere(curve(0.0))) == ROUNDING
    assert word(curve(0.0), elsewhere(curve(1e-6))) == DIFFERENT
    # one example of ten thousand decided otherwise is no rounding
    assert word(curve(0.1), elsewhere(curve(0.1001))) == DIFFERENT
    assert word(curve(0), elsewhere(curve(0.0))) == ROUNDING  # other bytes


@given(st.lists(st.floats(-1e30, 1e30), min_size=1, max_size=5))
def test_scaling_by_float32_epsilon_is_rounding(values: list[float]) -> None:
    now = elsewhere(curve(*(value * (1 + 1e-7) for value in values)))
    assert word(curve(*values), now) in ({ROUNDING, TO_THE_BYTE} if max(map(abs, values)) < 1e-300 else {ROUNDING})


def test_the_interval_is_of_the_cells_runs_at_one_level_for_all_values() -> None:
    """m ± t(3)·s·√(1 + 1/4), by hand for a single value: t = 3.182; of logarithms where all values are positive."""
    half = 3.182446 * math.sqrt(2 / 3) * math.sqrt(1.25)
    for spread, values in ((lambda x: x, (-1.0, 0.0, 1.0)), (math.exp, (math.exp(-1), 1.0, math.e))):
        others = [curve(value, seed=2 + k) for k, value in enumerate(values)]
        then, inside, outside = (curve(spread(at)) for at in (0.0, half * 0.999, half * 1.001))
        assert word(then, elsewhere(inside), others) == CHAOTIC and word(then, elsewhere(outside), others) == DIFFERENT
        # two values: a wider one
        longer = [replace(other, records=[*other.records, record(1, 0.5)]) for other in others]
        then, outside = (replace(run, records=[*run.records, record(1, 0.5)]) for run in (then, outside))
        assert word(then, elsewhere(outside), longer) == CHAOTIC


def test_too_few_seeds_to_compare_with() -> None:
    then, now = curve(2.3, 1.0, 0.5), elsewhere(curve(2.3, 1.01, 0.5))
    for others in ([], SEEDS[:2]):
        found = compare(then, now, others)
        (row,) = found.rows
        assert (found.word, row.judged, row.n) == (DIFFERENT, 0, len(others) + 1)
    diverged = [replace(SEEDS[0], records=[record(0, 2.3), record(1, "NaN")]), *SEEDS[1:]]
    assert compare(then, now, diverged).rows[0].n == 3  # one without a finite value has no spread to add


def test_the_same_environment_explains_nothing() -> None:
    then, now = curve(2.3, 1.0, 0.5), curve(2.3, 1.0, 0.5 + 1e-9)
    found = compare(then, now, SEEDS)
    assert (found.word, found.deterministic, found.changed) == (ROUNDING, False, {})
    found = compare(then, curve(2.3, 1.01, 0.5), SEEDS)
    assert (found.word, found.deterministic) == (DIFFERENT, False)
    signed = replace(now, environment=HERE | {"processor_signature": "model 2"})
    found = compare(then, signed, SEEDS)  # what was not recorded may be another
    assert found.deterministic and found.unrecorded == ["processor_signature"]
    chaotic = replace(curve(2.3, 1.01, 0.5), environment=signed.environment)
    assert compare(then, chaotic, SEEDS).word == CHAOTIC
    resumed = HERE | {"resumed": [{"step": 10, "changed": {"processor": "B"}}]}
    assert compare(replace(then, environment=resumed), now, SEEDS).changed == {"processor": ("B", "A")}


def test_other_data_explain_no_chaos() -> None:
    now = replace(curve(2.3, 1.01, 0.5), environment=HERE | {"data": {"sha256": "0"}})
    found = compare(curve(2.3, 1.0, 0.5), now, SEEDS)
    assert (found.word, found.deterministic, list(found.changed)) == (DIFFERENT, True, ["data"])


def test_a_row_per_metric_over_variants_orders_and_blocks() -> None:
    def records(shift: float) -> list[dict[str, Any]]:
        return [
            record(1, 0.5, split="valid", error=0.25 + shift),
            record(1, 0.5, error=0.25),
            *(record(1, 0.5 * (1 + shift * k), variant={"configuration": f"T{k}"}) for k in (1, 2)),
            record(1, 0.5 * (1 + shift), order=1),
        ]

    found = rows(compare(run(records(0.0), epochs=1), elsewhere(run(records(1e-6), epochs=1)), []))
    assert {name: (row.word, row.values) for name, row in found.items()} == {
        ("valid", "nll"): (TO_THE_BYTE, 1),
        ("valid", "error"): (ROUNDING, 1),
        ("test", "nll"): (ROUNDING, 4),
        ("test", "error"): (TO_THE_BYTE, 1),
    }
    largest = found["test", "nll"].largest
    assert largest and largest.variant == {"configuration": "T2"} and largest.relative == pytest.approx(2e-6, rel=1e-3)


def test_missing_evaluations_and_variants() -> None:
    then = curve(2.3, 1.0, 0.5, 0.4)
    found = compare(then, elsewhere(run(then.records[:-1])), SEEDS)
    assert (found.word, found.rows[0].only_then) == (DIFFERENT, 1) and found.first and found.first.now is None
    more = [*then.records, record(1, 1.0, variant={"configuration": "TT"})]
    assert word(then, elsewhere(run(more)), SEEDS) == word(run(more), elsewhere(then), SEEDS) == DIFFERENT


def test_once_curves_part_they_are_best_elsewhere() -> None:
    """What is evaluated at a new best comes at another evaluation then, and not before."""
    others = [replace(seed, records=[*seed.records, record(1, 1.0, order=1)]) for seed in SEEDS]
    then = run([*curve(2.3, 1.0, 0.5).records, record(1, 1.0, order=1), record(2, 0.5, order=1)], epochs=2)
    now = run([*curve(2.3, 1.0, 0.51).records, record(1, 1.0, order=1)], epochs=2)
    found = compare(then, elsewhere(now), others)
    assert (found.word, found.rows[0].only_then) == (CHAOTIC, 1)
    unparted = run([*curve(2.3, 1.0, 0.5).records, record(1, 1.0, order=1)], epochs=2)
    assert word(then, elsewhere(unparted), others) == DIFFERENT


def test_a_shorter_repetition_is_compared_as_far_as_it_goes() -> None:
    then = curve(2.3, 1.0, 0.5, 0.4)
    now = run([*then.records[:2], record(1, 0.9, split="test 2x")], epochs=1)  # evaluated at its last update alone
    assert compare(then, now, []).word == TO_THE_BYTE
    assert compare(then, replace(now, records=now.records[:1]), []).word == DIFFERENT


def test_values_that_are_not_finite() -> None:
    then = run([record(0, 2.3), record(1, "NaN")], epochs=2, status="diverged")
    assert word(then, elsewhere(then)) == TO_THE_BYTE
    finite = elsewhere(run([record(0, 2.3), record(1, 1.0)], epochs=2, status="diverged"))
    assert word(then, finite, SEEDS) == word(replace(then, records=finite.records), elsewhere(then), SEEDS) == DIFFERENT
    found = compare(replace(finite, environment=HERE), replace(finite, status="done"), [])
    assert (found.word, found.ended) == (DIFFERENT, ("diverged", "done"))
