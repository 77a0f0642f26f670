"""Cutting a run to a shorter length."""

from __future__ import annotations

from normbench.runs.record import RunRecord, whole


def _records(epochs: int, last: object = 0.5) -> list[dict]:
    records = [{"epoch": 0, "split": split, "mode": "eval", "nll": 2.0} for split in ("train", "test")]
    for epoch in range(1, epochs + 1):
        nll = last if epoch == epochs else 0.9
        records += [{"epoch": epoch, "split": "train", "mode": "running", "nll": nll}]
        records += [{"epoch": epoch, "split": split, "mode": "eval", "nll": nll} for split in ("train", "test")]
    return records


def test_whole_needs_all_records_of_an_epoch_and_finite_ones():
    assert whole(_records(2), 2) and whole(_records(2), 1) and not whole(_records(2), 3)
    assert not whole(_records(2)[:-2], 2) and whole(_records(2)[:-2], 1)
    assert whole(_records(2)[:-1], 2), "test splits may wait for a better epoch"
    assert not whole(_records(2, last="NaN"), 2)
    assert not whole([], 1)


def _run(status: str, records: list[dict], epochs: int = 6) -> RunRecord:
    return RunRecord("0" * 12, "e", "a", 1, status, epochs, records=records, reason="why", seconds=6.0)


def test_a_run_that_diverged_later_is_done_by_then():
    late = _run("diverged", _records(5))  # in the middle of epoch 6
    assert (late.cut(5).status, late.cut(5).reason) == ("done", "")
    assert late.cut(6).status == "diverged"
    at_evaluation = _run("diverged", _records(5, last="NaN"))
    assert at_evaluation.cut(5).status == "diverged" and at_evaluation.cut(4).status == "done"
    assert max(record["epoch"] for record in at_evaluation.cut(4).records) == 4


def test_a_longer_run_is_cut_and_its_own_length_left_alone():
    run = _run("done", _records(6))
    assert run.cut(6) is run
    assert run.cut(3).epochs == 3 and run.cut(3).seconds is None
