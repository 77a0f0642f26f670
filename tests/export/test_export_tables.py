"""Finished runs gathered, and written as flat tables."""

from __future__ import annotations

import csv
import math
import os
from dataclasses import replace
from pathlib import Path

import fake
import madeup
import pyarrow.parquet
import pytest
import tiny

from normbench.core.eval_variants import text
from normbench.export import tables
from normbench.runs import pack
from normbench.runs.table import Runs


def test_everything_is_published_and_raw_runs_once_each(tmp_path: Path):
    spec, other = tiny.spec(), tiny.spec("seed=2")
    longer = tiny.spec("train.epochs=4", "seed=2")
    fake.directory(tmp_path / "runs", spec)
    fake.directory(tmp_path / "runs", longer)
    fake.directory(tmp_path / "runs", tiny.spec("seed=3"), status="interrupted")
    broken = fake.directory(tmp_path / "runs", tiny.spec("seed=4"))
    (broken / "curve.jsonl").write_text("")
    pack.write(tmp_path / "p" / "a" / "paper" / pack.NAME, [fake.record(other)])
    (tmp_path / "p" / "b" / "paper").mkdir(parents=True)
    (tmp_path / "p" / "b" / "paper" / pack.NAME).write_bytes(b"no pack")
    runs, notes = Runs(tmp_path).finished()
    assert [(run.id, run.epochs) for run in runs] == [(spec.id, 2), (longer.id, 4)]  # the longer one of seed 2
    assert [run.experiment for run in runs] == ["adhoc", "adhoc"]
    assert len(notes) == 2 and str(broken) in notes[1] and "curve.jsonl" in notes[1]


def test_a_metric_is_not_mistaken_for_a_label() -> None:
    (run,) = madeup.runs(1, epochs=2)[:1]
    run = replace(run, records=[{**record, "seed": 0.5, "norm": 0.25} for record in run.records])
    frame = tables.frame([run])
    assert {*frame["seed"]} == {run.seed} and {*frame["metric seed"]} == {0.5} and {*frame["metric norm"]} == {0.25}


def test_csv_and_parquet_hold_every_record_exactly(tmp_path: Path):
    runs = madeup.runs(2, epochs=2)
    records = [dict(record) for record in runs[0].records]
    records[-1] |= {"nll": "NaN", "variant": {"momentum": 0.01}}
    runs[0] = replace(runs[0], records=records, arm='an "arm", quoted')
    tables.write_csv(runs, tmp_path / "new" / "curves.csv")
    tables.write_parquet(runs, tmp_path / "curves.parquet")
    with open(tmp_path / "new" / "curves.csv", newline="") as file:
        table = list(csv.DictReader(file))
    frame = pyarrow.parquet.read_table(tmp_path / "curves.parquet").to_pylist()
    flat = [(run, record) for run in runs for record in run.records]
    for (run, record), row, typed in zip(flat, table, frame, strict=True):
        assert (row["run"], row["arm"], row["train.batch_size"]) == (run.id, run.arm, "128")
        assert (typed["run"], typed["seed"], typed["train.batch_size"]) == (run.id, run.seed, 128)
        assert (row["split"], int(row["epoch"]), row["variant"]) == (
            record["split"], record["epoch"], text(record.get("variant", {})),
        )  # fmt: skip
        for key in ("nll", "error"):
            if key not in record:
                assert row[key] == "" and typed[key] is None
            elif record[key] == "NaN":
                assert row[key] == "nan" and math.isnan(typed[key])
            else:
                assert float(row[key]) == typed[key] == record[key]


def test_an_axis_named_like_a_column_keeps_both(tmp_path: Path):
    run = replace(madeup.runs(1, epochs=1)[0], axes={"seed": 7, "epoch": 9})
    frame = tables.frame([run])
    assert len(set(frame.columns)) == len(frame.columns)
    row = frame.iloc[0]
    assert (row["seed"], row["axis seed"], row["axis epoch"]) == (6, 7, 9)


def test_an_axis_of_mixed_kinds_becomes_text(tmp_path: Path):
    runs = madeup.runs(1, epochs=1)[:2]
    runs[0] = replace(runs[0], axes={"x": "all"})
    runs[1] = replace(runs[1], axes={"x": 3})
    tables.write_parquet(runs, tmp_path / "curves.parquet")
    assert set(pyarrow.parquet.read_table(tmp_path / "curves.parquet")["x"].to_pylist()) == {"all", "3"}


@pytest.mark.slow
def test_export_writes_to_regular_files_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd):
    from normbench.cli import main

    monkeypatch.chdir(tmp_path)
    madeup.published(tmp_path / "results")
    os.mkfifo(tmp_path / "pipe")
    refused = (
        ("/proc/curves.csv", "/proc"), ("/", "regular file"), (".", "regular file"), ("pipe", "regular file"),
    )  # fmt: skip
    for output, message in refused:
        with pytest.raises(SystemExit) as ended:
            main(("export", "csv", "--output", output))
        assert ended.value.code == 2 and message in capfd.readouterr().err
    assert (tmp_path / "pipe").is_fifo()
    (tmp_path / "link.csv").symlink_to("own.csv")
    with pytest.raises(SystemExit):
        main(("export", "csv", "--output", "link.csv"))
    assert (tmp_path / "link.csv").is_symlink() and (tmp_path / "own.csv").stat().st_size > 1000
    for project in ("a/b", "", "x" * 129):
        with pytest.raises(SystemExit) as ended:
            main(("export", "wandb", "--project", project))
        assert ended.value.code == 2 and "cannot be a W&B project" in capfd.readouterr().err


def test_a_metric_that_a_later_run_of_an_arm_has_gets_its_column(tmp_path: Path):
    first, *_ = runs = [run for run in madeup.runs(tables.BATCH + 2, epochs=1) if run.arm == "ln"]
    runs[0] = replace(first, records=[{**record, "grad_norm": 2.0} for record in first.records])
    assert len(runs) > tables.BATCH
    tables.write_csv(runs, tmp_path / "curves.csv")
    with open(tmp_path / "curves.csv", newline="") as file:
        found = [row["grad_norm"] for row in csv.DictReader(file)]
    assert found.count("2") == len(first.records) and len(found) == sum(len(run.records) for run in runs)
