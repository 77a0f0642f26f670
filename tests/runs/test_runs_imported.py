"""Runs of other programs: their pack is whole or not there, and is what the last import read."""

from __future__ import annotations

import multiprocessing
from dataclasses import replace
from pathlib import Path

import fake
import logged
import pytest

from normbench.check import Check
from normbench.errors import NormbenchError
from normbench.runs import files, imported, pack
from normbench.runs.curve import Curve
from normbench.runs.run import Run, check_record
from normbench.runs.table import Runs

HOSTILE = {"path": "${oc.env:HOME}/x", '"id": "0123456789ab"': '], "curves": [{"\u202e</script>'}


def held(results: Path, name: str = "x") -> dict[str, Run]:
    return {run.config["import"]["run"]: run for run in pack.read(imported.place(results, name)).runs}


def test_a_run_comes_back_as_it_was_with_and_without_its_curve(tmp_path: Path) -> None:
    runs = [
        logged.run("ln", 1, about={"hparams": HOSTILE}, axes={"optim.lr": 0.1, "width": 3}, control="lr-low"),
        logged.run("bn", 2, end="-Infinity"),
        logged.run("bn", 3, end=1e59),
    ]
    imported.write(tmp_path, "x", runs)
    assert imported.names(tmp_path) == ["x"]
    whole = sorted(pack.read(path := imported.place(tmp_path, "x")).runs, key=lambda run: run.id)
    assert whole == sorted(runs, key=lambda run: run.id)
    assert [[*run.records] for run in whole] == [[*run.records] for run in sorted(runs, key=lambda run: run.id)]
    heads = pack.read(path).runs
    assert [head.evaluations for head in heads] == [len(run.records) for run in sorted(runs, key=pack.place)]
    assert heads == sorted(runs, key=pack.place)
    assert [run.id for run in pack.read(path, runs[0].id.__eq__).runs] == [runs[0].id], "the id in its hparams is none"
    for record in runs[1].records:
        check_record(record)


def test_a_whole_number_beyond_64_bits_is_kept_as_a_float(tmp_path: Path) -> None:
    imported.write(tmp_path, "x", [logged.run(about={"hparams": {"big": 2**70, "small": 2}})])
    (run,) = pack.whole(imported.place(tmp_path, "x")).runs
    assert run.config["import"]["hparams"] == {"big": float(2**70), "small": 2}


def test_records_stand_by_step_and_columns_are_of_one_length() -> None:
    records = [*logged.run().records]
    assert [r["step"] for r in records] == sorted(r["step"] for r in records) and Curve(records) == records
    with pytest.raises(ValueError):
        Curve.of_columns([{"split": "valid", "mode": "logged", "columns": {"step": [1, 2], "loss": [0.5]}}])


def test_an_import_replaces_the_pack_of_its_name(tmp_path: Path) -> None:
    """Shorter logs, too; nothing of the earlier one is left, whatever it was."""
    imported.write(tmp_path, "x", [logged.run("ln", 1), logged.run("ln", 2)])
    content = (path := imported.place(tmp_path, "x")).read_bytes()
    imported.write(tmp_path, "x", [logged.run("ln", 2), logged.run("ln", 1)])
    assert path.read_bytes() == content
    imported.write(tmp_path, "x", [logged.run("ln", 1, points=4)])
    assert {key: run.steps for key, run in held(tmp_path).items()} == {"ln_s1": 40}
    path.write_bytes(b"no pack")
    imported.write(tmp_path, "x", [logged.run("bn", 1)])
    assert held(tmp_path).keys() == {"bn_s1"}


def test_more_than_a_pack_can_hold_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack, "LARGEST", 1000)
    with pytest.raises(NormbenchError, match="--as each of several names"):
        imported.write(tmp_path, "x", [logged.run()])
    assert not imported.names(tmp_path)


def _write(results: Path, number: int) -> None:
    runs = [logged.run("ln", seed) for seed in range(10 * number, 10 * number + 5)]
    for _ in range(5):
        imported.write(results, "x", runs, map_yaml=f"number: {number}\n".encode())


def test_of_imports_at_once_the_last_one_is_there_with_its_map(tmp_path: Path) -> None:
    at_once = [multiprocessing.get_context("fork").Process(target=_write, args=(tmp_path, n)) for n in range(4)]
    for process in at_once:
        process.start()
    for process in at_once:
        process.join()
    assert [process.exitcode for process in at_once] == [0] * 4
    number = min(run.seed for run in held(tmp_path).values()) // 10
    assert sorted(run.seed for run in held(tmp_path).values()) == [*range(10 * number, 10 * number + 5)]
    assert imported.place(tmp_path, "x").with_name(imported.MAP).read_text() == f"number: {number}\n"
    assert not [path for path in tmp_path.rglob("*") if files.is_leftover(path.name)]


@pytest.mark.parametrize("name", ["", "../x", ".x", "a/b", "a b", "x\n"])
def test_a_name_is_that_of_a_folder(name: str, tmp_path: Path) -> None:
    with pytest.raises(NormbenchError, match="no name"):
        imported.write(tmp_path, name, [logged.run()])
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("metric", ["step", "split", "order"])
def test_a_metric_is_not_called_as_what_places_it(metric: str) -> None:
    with pytest.raises(NormbenchError, match=f"metric {metric}"):
        logged.run(metrics={metric: {}})


def test_remove_deletes_one_name(tmp_path: Path) -> None:
    for name in ("x", "y"):
        imported.write(tmp_path, name, [logged.run(name=name)])
    imported.remove(tmp_path, "x")
    assert imported.names(tmp_path) == ["y"] and not imported.place(tmp_path, "x").parents[1].exists()
    with pytest.raises(NormbenchError, match="Choose from: y"):
        imported.remove(tmp_path, "z")


def test_check_computes_ids_again_and_misses_no_verdicts(tmp_path: Path) -> None:
    imported.write(tmp_path, "x", [logged.run(), logged.run("bn", axes={"optim.lr": 0.1})])
    check = Check(tmp_path)
    assert [*check.findings()] == [] and check.counted["imported runs"] == 2
    (tmp_path / "imported" / "x").rename(tmp_path / "imported" / "renamed")
    assert {finding.kind for finding in Check(tmp_path).findings()} == {"id"}
    bare = [replace(run, config={}) for run in pack.read(imported.place(tmp_path, "renamed")).runs]
    for content in (pack.dump(bare), fake.packed(["{}", "[[]]"])):
        imported.place(tmp_path, "renamed").write_bytes(content)
        assert {finding.kind for finding in Check(tmp_path).findings()} < {"id", "damage"}
    imported.place(tmp_path, "renamed").write_bytes(b"no pack")
    assert [finding.kind for finding in Check(tmp_path).findings()] == ["damage"]


def test_a_table_of_runs_has_them_by_their_source(tmp_path: Path) -> None:
    imported.write(tmp_path, "x", [logged.run(), logged.run("bn", end="NaN")])
    runs, notes = Runs(tmp_path).finished()
    assert notes == [] and {(run.source, run.fidelity, run.status) for run in runs} == {
        ("imported", "logged", "done"),
        ("imported", "logged", "diverged"),
    }
    assert {len(run.records) for run in runs} == {len(logged.run().records)}, "a diverged one is not cut"
