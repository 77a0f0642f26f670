"""Cutting a run to a shorter length."""

from __future__ import annotations

import tracemalloc

from normbench.runs.curve import Curve
from normbench.runs.files import line
from normbench.runs.run import Run, evaluation_complete


def _records(epochs: int, last: object = 0.5) -> list[dict]:
    records = [{"epoch": 0, "step": 0, "split": split, "mode": "eval", "nll": 2.0} for split in ("train", "test")]
    for epoch in range(1, epochs + 1):
        nll = last if epoch == epochs else 0.9
        records += [{"epoch": epoch, "step": 6 * epoch, "split": "train", "mode": "running", "nll": nll}]
        records += [
            {"epoch": epoch, "step": 6 * epoch, "split": split, "mode": "eval", "nll": nll}
            for split in ("train", "test")
        ]
    return records


def test_an_evaluation_is_complete_with_all_its_records_and_finite_ones():
    def whole(records: list[dict], epoch: int) -> bool:
        return evaluation_complete(records, 6 * epoch)

    assert whole(_records(2), 2) and whole(_records(2), 1) and not whole(_records(2), 3)
    assert not whole(_records(2)[:-2], 2) and whole(_records(2)[:-2], 1)
    assert whole(_records(2)[:-1], 2), "test splits may wait for a better epoch"
    assert not whole(_records(2, last="NaN"), 2)
    assert not whole([], 1)
    unsound = _records(2)
    unsound[-1]["nll"] = "Infinity"
    assert not whole(unsound, 2), "of any split: the run ended there"
    assert whole([*_records(2), {**_records(2)[-1], "nll": "NaN", "variant": {"configuration": "FTTT"}}], 2)


def _run(status: str, records: list[dict], epochs: int = 6) -> Run:
    return Run("0" * 12, "e", "a", 1, status, epochs, records=records, reason="why", seconds=6.0)


def test_a_run_that_diverged_later_is_done_by_then():
    late = _run("diverged", _records(5))  # in the middle of epoch 6
    assert (late.cut(30).status, late.cut(30).reason) == ("done", "")
    assert late.cut(36).status == "diverged"
    at_evaluation = _run("diverged", _records(5, last="NaN"))
    assert at_evaluation.cut(30).status == "diverged" and at_evaluation.cut(24).status == "done"
    assert max(record["epoch"] for record in at_evaluation.cut(24).records) == 4


def test_a_longer_run_is_cut_and_its_own_length_left_alone():
    run = _run("done", _records(6))
    assert run.cut(36) is run
    assert run.cut(18).epochs == 3 and run.cut(18).seconds is None


def _logged() -> list[dict]:
    """What curves have: numbers of both kinds, variants, other orders, keys that some records lack, no finite ones."""
    places = ({}, {"order": 3}, {"variant": {"momentum": 1.0}}, {"variant": {"momentum": 1}}, {"examples": 2**40})
    return [
        {"step": 100 * step, "epoch": epoch, "split": split, "mode": "eval", "nll": nll, **place}
        for step, epoch, nll in ((0, 0, -0.0), (1, 0.5, 2), (2, 1, "NaN"), (3, 2, 1e-300), (4, 3, 0.1))
        for split in ("train", "test")
        for place in places
    ]


def test_a_curve_gives_its_records_back_as_they_were():
    curve, empty = Curve(_logged()), Curve()
    assert curve == _logged() and curve[-1] == _logged()[-1] and curve[3:5] == _logged()[3:5]
    assert [*map(line, curve)] == [*map(line, _logged())], "1 and 1.0 are two numbers"
    assert (len(curve), curve.last_step) == (len(_logged()), 400)
    assert not empty and [*empty] == [] and empty.last_step == 0
    assert Run("0" * 12, "e", "a", 1, "done", 2, records=_logged()).records == curve


def test_a_record_takes_less_than_forty_bytes():
    curve = (r | {"error": r["nll"] / 3, "step": 500 * r["epoch"]} for r in _records(1000, last=0.9))
    tracemalloc.start()
    held = Curve(curve)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < 40 * len(held)
