"""Cutting a run to a shorter length."""

from __future__ import annotations

from normbench.runs.record import RunRecord, evaluation_complete


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


def _run(status: str, records: list[dict], epochs: int = 6) -> RunRecord:
    return RunRecord("0" * 12, "e", "a", 1, status, epochs, records=records, reason="why", seconds=6.0)


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
