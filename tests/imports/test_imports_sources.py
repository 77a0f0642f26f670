"""What real tools wrote is read value for value: examples/imports/make.py logged it with them."""

from __future__ import annotations

import gzip
import importlib
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import madeup
import numpy as np
import pytest
import yaml

from normbench import imports
from normbench.core.keys import read as read_keys
from normbench.errors import NormbenchError
from normbench.export import tables
from normbench.imports import tensorboard
from normbench.imports.map_keys import Map
from normbench.runs import pack
from normbench.runs.run import Run

FILES = Path(__file__).parents[2] / "examples" / "imports"
EXPECTED = json.loads((FILES / "expected.json").read_text())
CELLS = [(arm, seed) for arm in ("base", "ln") for seed in (1, 2)]


def read(path: Path, **keys: Any) -> list[Run]:
    return [*imports.read([path], "x", read_keys(Map, keys)).runs]


def values(run: Run, split: str, metric: str) -> dict[float, Any]:
    return {record["step"]: record[metric] for record in run.records if record["split"] == split}


def cells(runs: list[Run]) -> list[tuple[str, int]]:
    return sorted((run.arm, run.seed) for run in runs)


def expected(run: Run, split: str, steps: Any) -> dict[int, float]:
    return dict(zip(steps, EXPECTED[f"{run.arm} {run.seed} {split}"], strict=True))


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    """scripts/bench/imports.py, which writes long logs."""
    monkeypatch.syspath_prepend(str(FILES.parents[1] / "scripts" / "bench"))
    found = importlib.import_module("imports")
    for name in ("imports", "harness"):
        monkeypatch.delitem(sys.modules, name)
    return found


def test_tensorboard_is_read_bit_for_bit_as_float32_with_hparams_of_the_sub_folder() -> None:
    runs = read(FILES / "tensorboard")
    assert cells(runs) == CELLS
    for run in runs:
        for split in ("train", "valid"):
            found = values(run, split, "loss")
            last = found.pop(1000) if split == "train" else None
            wanted = {step: float(np.float32(one)) for step, one in expected(run, split, range(0, 600, 100)).items()}
            assert found == wanted
            assert last in (None, "NaN" if (run.arm, run.seed) == ("base", 2) else 0.25)
        assert run.status == ("diverged" if (run.arm, run.seed) == ("base", 2) else "done")
        about = run.config["import"]
        assert about["hparams"] == {"seed": run.seed, "norm": run.arm, "lr": 0.1, "note": "$\\{oc.env:HOME}"}
        assert "lr" not in {key for record in run.records for key in record}  # a tag without a split is no series
        assert len(about["files"]) == 2 and about["clocks"] == ["step"]
    by_hparam = read(FILES / "tensorboard", labels={"arm": {"hparam": "norm"}, "seed": {"hparam": "seed"}})
    assert cells(by_hparam) == CELLS


def test_tensorboardx_is_read_too() -> None:
    (run,) = read(FILES / "tensorboardx", labels={"arm": {"path": "^(ln)_s"}})
    wanted = {step: float(np.float32(one)) for step, one in expected(run, "train", range(6)).items()}
    assert values(run, "train", "loss") == wanted


def test_lightning_is_read_value_for_value_with_epochs_beside_its_steps() -> None:
    runs = read(FILES / "lightning")
    assert cells(runs) == CELLS
    for run in runs:
        for split in ("train", "valid"):
            assert values(run, split, "loss") == expected(run, split, range(9, 69, 10))
        assert run.config["import"]["clocks"] == ["step", "epoch"] and run.config["import"]["source"] == "lightning"
        assert [record["epoch"] for record in run.records if record["split"] == "train"] == [0, 0, 1, 1, 2, 2]


def test_an_epoch_that_stands_still_is_counted() -> None:
    run = read(FILES / "lightning", x={"epoch": {"column": "epoch"}})[0]
    assert run.config["import"]["counted"]["repeated"] == 6
    assert [*values(run, "train", "loss")] == [0, 1, 2]


def test_keras_counts_epochs_from_0_and_its_nan_is_divergence() -> None:
    runs = read(FILES / "keras")
    assert cells(runs) == CELLS
    for run in runs:
        assert values(run, "train", "loss") == expected(run, "train", range(6))
        valid = values(run, "valid", "loss")
        if run.arm == "base":
            assert valid.pop(5) == "NaN" and run.status == "diverged"
        assert valid == {step: one for step, one in expected(run, "valid", range(6)).items() if step in valid}


def test_hugging_face_takes_the_longest_state_of_a_run_and_no_summary() -> None:
    runs = read(
        FILES / "huggingface",
        x={"step": {"key": "step"}, "epoch": {"key": "epoch"}},
        series=[{"key": "loss", "split": "train"}, {"key": "eval_loss", "split": "valid"}],
        labels={"arm": {"path": "^out-([a-z]+)-"}, "seed": {"path": r"-seed(\d+)$"}},
    )  # fmt: skip
    assert cells(runs) == CELLS
    for run in runs:
        for split in ("train", "valid"):
            assert values(run, split, "loss") == expected(run, split, range(50, 350, 50))


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    shutil.copytree(FILES / "huggingface" / "out-ln-seed1", tmp_path / "out-ln-seed1")
    other = FILES / "huggingface" / "out-ln-seed2" / "checkpoint-150" / "trainer_state.json"
    shutil.copy(other, tmp_path / "out-ln-seed1" / "checkpoint-150" / "trainer_state.json")
    with pytest.raises(NormbenchError, match="no beginning of"):
        read(tmp_path, x={"step": {"key": "step"}})


def test_wandb_is_read_offline_with_the_clock_of_define_metric() -> None:
    runs = read(FILES / "wandb")
    assert cells(runs) == CELLS
    for run in runs:
        steps = range(0, 60, 10)
        assert values(run, "train", "loss") == expected(run, "train", steps)
        assert values(run, "valid", "acc") == expected(run, "valid", steps)
        assert run.config["import"]["hparams"]["model.norm"] == run.arm
        assert len(run.config["import"]["run"]) == 8  # W&B's id, not the folder


def test_wandb_of_another_version_is_one_line(tmp_path: Path) -> None:
    content = bytearray(next((FILES / "wandb").rglob("*.wandb")).read_bytes())
    content[6] = 1
    (tmp_path / "run-a.wandb").write_bytes(content)
    with pytest.raises(NormbenchError, match="version 1"):
        read(tmp_path)


@pytest.mark.parametrize("source", ["tensorboard", "wandb"])
def test_a_file_cut_anywhere_gives_its_whole_records_and_counts_the_rest(source: str, tmp_path: Path) -> None:
    path = next(path for path in sorted((FILES / source).rglob("*")) if path.is_file() and path.stat().st_size > 600)
    content, whole = path.read_bytes(), len(read(path, labels={"seed": "none"})[0].records)
    shown = set()
    for end in range(len(content) - 200, len(content), 7):
        (tmp_path / path.name).write_bytes(content[:end])
        (run,) = read(tmp_path / path.name, labels={"seed": "none"})
        lost = run.config["import"]["counted"].get("lost_bytes", 0)
        assert 0 <= lost < 200 and len(run.records) <= whole
        shown.add(len(run.records))
    assert len(shown) > 1


def test_a_wrong_sum_ends_an_event_file(tmp_path: Path) -> None:
    path = sorted((FILES / "tensorboardx" / "ln_s1").iterdir())[0]
    content = bytearray(path.read_bytes())
    content[-60] ^= 1
    (tmp_path / "ln_s1").mkdir()
    (tmp_path / "ln_s1" / path.name).write_bytes(content)
    (run,) = read(tmp_path / "ln_s1" / path.name, labels={"seed": "none"})
    assert [*values(run, "train", "loss")] == [0, 1, 2, 3]
    assert run.config["import"]["counted"]["lost_bytes"] > 60


def test_a_zero_is_a_value_and_a_run_without_series_is_left_out(tmp_path: Path) -> None:
    shutil.copytree(FILES / "tensorboard", tmp_path / "logs")
    runs = read(tmp_path / "logs", series=[{"tag": "lr", "split": "train"}], labels={"arm": {"hparam": "norm"}})
    assert [values(run, "train", "lr") for run in runs] == [{0: 0.0}] * 4
    (empty := tmp_path / "logs" / "ln_s9").mkdir()
    source = next((FILES / "tensorboard" / "ln_s1").glob("events*"))
    (empty / source.name).write_bytes(source.read_bytes()[:60])  # the version alone: it was killed at once
    read_all = imports.read([tmp_path / "logs"], "x")
    assert cells([*read_all.runs]) == CELLS and any("ln_s9 is left out" in note for note in read_all.notes)


def test_a_link_to_a_log_is_no_second_run(tmp_path: Path) -> None:
    shutil.copytree(FILES / "keras", tmp_path / "logs")
    (tmp_path / "logs" / "latest.csv").symlink_to(tmp_path / "logs" / "ln_s1.csv")
    assert cells(read(tmp_path / "logs", source="keras", run="path", labels={"arm": {"path": "(ln|base)"}})) == CELLS


@pytest.mark.parametrize("source", ["csv", "parquet", "jsonl", "tensorboard", "wandb"])
def test_logs_of_thousands_of_points_are_read_whole(source: str, bench: Any, tmp_path: Path) -> None:
    """Those of scripts/bench: W&B's records cross its blocks, steps of an event have one to three bytes."""
    for run in (0, 1):
        bench.WRITERS[source](tmp_path, run, 3000)
    for number, run in enumerate(sorted(read(tmp_path), key=lambda run: run.arm)):
        wanted = bench.table(number, 3000).to_pylist()
        kind = np.float32 if source == "tensorboard" else float
        assert values(run, "valid", "loss") == {row["step"]: float(kind(row["valid/loss"])) for row in wanted}
        assert run.config["import"]["counted"] == {}


def test_a_resumed_run_of_wandb_has_two_files_of_one_id(bench: Any, tmp_path: Path, monkeypatch: Any) -> None:
    whole = bench.table(0, 100)
    for folder, rows in (("offline-run-1", whole.slice(0, 50)), ("offline-run-2", whole.slice(40))):
        monkeypatch.setattr(bench, "table", lambda run, points, rows=rows: rows)
        (tmp_path / folder).mkdir()
        bench.write_wandb(tmp_path / folder, 0, 100)
    (run,) = read(tmp_path)
    assert values(run, "valid", "loss") == dict(
        zip(*(whole.column(name).to_pylist() for name in whole.column_names), strict=True)
    )
    assert run.config["import"]["counted"] == {"rewound": 10} and len(run.config["import"]["files"]) == 2


# --- tables ----------------------------------------------------------------------------------------------------------

ROWS = [(10, 0.5, 0.6), (20, 0.1 + 0.2, 0.45), (30, 1e-7, 0.4)]
TEXT = "step,train/loss,valid/loss\n" + "".join(f"{step},{a!r},{b!r}\n" for step, a, b in ROWS)


def _csv(folder: Path) -> None:
    (folder / "ln_s3.csv").write_text(TEXT)


def _bom_semicolon_crlf_gz(folder: Path) -> None:
    text = TEXT.replace(",", ";").replace(".", ",").replace("\n", "\r\n")
    (folder / "ln_s3.csv.gz").write_bytes(gzip.compress(b"\xef\xbb\xbf" + text.encode()))


def _parquet(folder: Path) -> None:
    import pandas

    pandas.DataFrame(ROWS, columns=["step", "train/loss", "valid/loss"]).to_parquet(folder / "ln_s3.parquet")


def _lines(folder: Path) -> None:
    names = ("step", "train/loss", "valid/loss")
    (folder / "ln_s3.jsonl").write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in ROWS))


def _lines_gz_bom(folder: Path) -> None:
    _lines(folder)
    content = (folder / "ln_s3.jsonl").read_bytes()
    (folder / "ln_s3.jsonl").unlink()
    (folder / "ln_s3.jsonl.gz").write_bytes(gzip.compress(b"\xef\xbb\xbf" + content))


@pytest.mark.parametrize("write", [_csv, _bom_semicolon_crlf_gz, _parquet, _lines, _lines_gz_bom])
def test_tables_are_read_value_for_value(write: Any, tmp_path: Path) -> None:
    write(tmp_path)
    (run,) = read(tmp_path)
    assert (run.arm, run.seed, run.steps, run.status) == ("ln", 3, 30, "done")
    assert values(run, "train", "loss") == {step: a for step, a, _ in ROWS}
    assert values(run, "valid", "loss") == {step: b for step, _, b in ROWS}


# --- the six maps of the documentation -------------------------------------------------------------------------------


@pytest.mark.parametrize("mapped", [False, True])
def test_folders_of_each_split_with_scalars_that_are_tensors(mapped: bool) -> None:
    """1: as TensorFlow 2 and Keras write them; without a map the same is guessed."""
    split = {"path": "/(train|validation)$", "train": "train", "validation": "valid"}
    keys: dict[str, Any] = {
        "source": "tensorboard",
        "run": {"path": r"^([^/]+_s\d+)"},
        "series": [{"tag": "epoch_loss", "split": split}],
    }
    runs = read(FILES / "tensorflow2", **(keys if mapped else {}))
    assert cells(runs) == CELLS
    for run in runs:
        for name in ("train", "valid"):
            wanted = {step: float(np.float32(one)) for step, one in expected(run, name, range(6)).items()}
            assert values(run, name, "epoch_loss") == wanted | {6: 0.0}


def test_wandb_by_a_map() -> None:
    """2"""
    runs = read(
        FILES / "wandb",
        source="wandb",
        labels={"arm": {"config": "model.norm"}, "seed": {"config": "seed"}},
        series=[{"key": "eval/acc", "split": "valid", "goal": "max", "x": {"step": {"key": "eval/iter"}}}],
        monitor={"split": "valid", "metric": "acc"},
    )  # fmt: skip
    assert cells(runs) == CELLS
    assert all(run.monitor == {"split": "valid", "metric": "acc", "goal": "max"} for run in runs)
    assert values(runs[0], "valid", "acc") == expected(runs[0], "valid", range(0, 60, 10))


def test_a_chart_of_wandb_has_a_column_a_run(tmp_path: Path) -> None:
    """3: the form that W&B's export of a chart has."""
    names = [f"{arm}-{seed} - train/loss" for arm, seed in CELLS]
    head = ["Step", *(f"{name}{end}" for name in names for end in ("", "__MIN", "__MAX"))]
    rows = [
        [step * 10, *(EXPECTED[f"{arm} {seed} train"][step] for arm, seed in CELLS for _ in range(3))]
        for step in range(6)
    ]
    lines = [",".join(f'"{word}"' for word in words) for words in (head, *rows)]
    (tmp_path / "wandb_export.csv").write_text("\n".join(lines) + "\n")
    keys: dict[str, Any] = {
        "columns": r"^(?P<arm>.+)-(?P<seed>\d+) - train/loss$",
        "series": [{"column": "* - train/loss", "split": "train", "metric": "loss"}],
    }
    with pytest.raises(NormbenchError, match="clock"):
        read(tmp_path, **keys)
    runs = read(tmp_path, x={"step": {"column": "Step"}}, **keys)
    assert cells(runs) == CELLS
    for run in runs:
        assert values(run, "train", "loss") == expected(run, "train", range(0, 60, 10))


def test_a_long_csv_with_a_control_and_a_common_length(tmp_path: Path) -> None:
    """5"""
    lines = ["norm,seed,lr,step,name,value"]
    for norm in ("ln", "base"):
        for lr, last in (("0.001", 5), ("0.0003", 4)):
            for seed in (1, 2):
                rows = enumerate(EXPECTED[f"{norm} {seed} valid"][:last])
                lines += [
                    f"{norm},{seed},{lr},{100.0 * i},{name},{one!r}" for i, one in rows for name in ("loss", "lr")
                ]
    (tmp_path / "all.csv").write_text("\n".join(lines) + "\n")
    keys = yaml.safe_load("""
        source: csv
        run: [norm, seed, lr]
        long: {name: name, value: value}
        labels: {arm: {column: norm}, seed: {column: seed}, control: {column: lr, 0.001: '', 0.0003: lr-low}}
        series: [{column: loss, split: valid, goal: min, unit: nats, log: true}]
        length: common
    """)
    runs = read(tmp_path, **keys)
    assert {(run.arm, run.seed, run.control) for run in runs} == {
        (arm, seed, control) for arm, seed in CELLS for control in ("", "lr-low")
    }
    for run in runs:
        assert values(run, "valid", "loss") == expected_first(run, 4)
        cut = {"cut": 1} if run.control == "" else {}
        assert run.config["import"]["counted"] == cut
    with pytest.raises(NormbenchError, match="length: common"):
        read(tmp_path, **{**keys, "length": "equal"})


def test_a_common_length_does_not_cut_off_that_a_run_diverged(tmp_path: Path) -> None:
    for seed, lasts in enumerate(([], [0.4], ["nan"])):
        rows = "".join(f"{step},{loss}\n" for step, loss in enumerate([0.9, 0.5, *lasts]))
        (tmp_path / f"ln_s{seed}.csv").write_text(f"step,loss\n{rows}")
    runs = read(tmp_path, source="csv", series=[{"column": "loss", "split": "valid", "goal": "min"}], length="common")
    assert [run.status for run in runs] == ["done", "done", "diverged"]


def expected_first(run: Run, count: int) -> dict[int, float]:
    return dict(zip(range(0, 100 * count, 100), EXPECTED[f"{run.arm} {run.seed} valid"], strict=False))


def test_a_pack_is_read_by_others() -> None:
    path = Path(__file__).parents[2] / "results" / "ln2016" / "fig6" / "paper" / pack.NAME
    with pytest.raises(NormbenchError, match=r"runs\.jsonl\.gz: .*judge --runs"):
        imports.read([path], "x")


def test_an_export_is_a_table_like_any_other(tmp_path: Path) -> None:
    runs = madeup.runs(2)
    tables.write_csv(runs, tmp_path / "curves.csv")
    keys: dict[str, Any] = {"run": ["run"], "x": {"step": {"column": "step"}}, "blank": "missing", "repeats": "last"}
    keys |= {"labels": {"arm": {"column": "arm"}, "seed": {"column": "seed"}}}
    back = read(tmp_path, series=[{"column": "nll", "split": "test", "metric": "nll"}], **keys)
    assert {(run.arm, run.seed) for run in back} == {(run.arm, run.seed) for run in runs} and len(back) == len(runs)


def test_hparams_of_zero_and_without_a_number_are_kept() -> None:
    data = tensorboard._hparams()()
    for key, value in (("lr", {"number": 0.0}), ("big", {"number": float("inf")}), ("on", {"flag": False})):
        data.start.hparams.add(key=key).value.CopyFrom(type(data.start.hparams.add().value)(**value))
    event = tensorboard._event()()
    event.summary.value.add().metadata.plugin.name = "hparams"
    event.summary.value[0].metadata.plugin.content = data.SerializeToString()
    events = tensorboard.Events()
    tensorboard._decode_record(event.SerializeToString(), 0, events)
    assert {key: events.hparams[key] for key in ("lr", "big", "on")} == {"lr": 0.0, "big": "inf", "on": False}
