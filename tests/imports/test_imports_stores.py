"""Stores of Trackio and MLflow, as the packages wrote them (scripts/check/stores.py), and stores that are spoiled."""

from __future__ import annotations

import importlib
import json
import sqlite3
import sys
import tarfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from normbench import imports
from normbench.core.keys import read as read_keys
from normbench.errors import NormbenchError
from normbench.imports.guess import OpenMap
from normbench.imports.map_keys import Map
from normbench.runs.run import Run

PACKED = Path(__file__).with_name("stores.tar.gz")
SOURCES = ("trackio", "mlflow", "mlruns")


@pytest.fixture
def stores(tmp_path: Path) -> Path:
    with tarfile.open(PACKED) as packed:
        packed.extractall(tmp_path)
    return tmp_path


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "scripts" / "check"))
    module = importlib.import_module("stores")
    monkeypatch.delitem(sys.modules, "stores")
    return module


def read(path: Path, **keys: Any) -> imports.Read:
    return imports.read([path], "x", read_keys(Map, keys))


def curve(run: Run, split: str = "valid") -> dict[int, Any]:
    return {record["step"]: record["loss"] for record in run.records if record["split"] == split}


def trackio(path: Path, runs: dict[str, dict[str, Any]], key: str = "run_id") -> Path:
    """A store of runs with these configurations, each with one value."""
    with closing(sqlite3.connect(path)) as store:
        column = f"{key} TEXT, " if key == "run_id" else ""
        store.execute(f"CREATE TABLE metrics (id INTEGER PRIMARY KEY, {column}timestamp, run_name, step, metrics)")
        store.execute(f"CREATE TABLE configs (id INTEGER PRIMARY KEY, {column}run_name, config)")
        for number, (name, config) in enumerate(runs.items()):
            id = [f"{number:032x}"] if column else []
            marks = ", ?" * (len(id) + 2)
            store.execute(f"INSERT INTO configs VALUES (NULL{marks})", [*id, name, json.dumps(config)])
            store.execute(f"INSERT INTO metrics VALUES (NULL{marks}, 1, ?)", [*id, "1", name, '{"val/loss": 1.0}'])
        store.commit()
    return path


def files(folder: Path) -> dict[str, tuple[int, bytes]]:
    """All files of a folder, with the times of their last change."""
    return {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.iterdir()}


# --- whole stores ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", SOURCES)
def test_every_number_is_what_the_package_says(source: str, stores: Path, script: Any) -> None:
    assert [*script.differences(source, stores)] == []
    runs = {(run.arm, run.seed): run for run in read(stores / script.STORES[source]).runs}
    assert {*runs} == {*script.CELLS}
    assert runs["base", 3].config["import"]["counted"] == {"rewound": 4}  # two steps of two series
    assert {cell for cell, run in runs.items() if run.status == "diverged"} == {*script.ENDS}
    lr = runs["ln", 2].config["import"]["hparams"]["optimizer.lr"]
    assert float(lr) == 1e-3
    metrics = {key for run in runs.values() for record in run.records for key in record}
    assert metrics == {"step", "split", "mode", "loss"}  # none of the machine


@pytest.mark.parametrize("source", SOURCES)
def test_what_a_store_has_beside_its_curves_is_said(source: str, stores: Path, script: Any) -> None:
    notes = " | ".join(read(stores / script.STORES[source]).notes)
    assert "system metrics" in notes
    if source != "trackio":
        assert "deleted: ln_s9" in notes and "high_s2 is FAILED" in notes
        assert all(f"sweep {arm} (" in notes for arm in ("base", "ln", "high"))  # runs that others are nested in


def test_what_a_nested_run_lies_in_is_in_its_path(stores: Path) -> None:
    for source in ("mlflow.db", "mlruns"):
        runs = read(stores / source, labels={"arm": {"path": "norms/sweep (.+)/"}}).runs
        assert {run.arm for run in runs} == {"base", "ln", "high"}


@pytest.mark.parametrize("folder", ["mlruns/1/run/artifacts", "media/norms/run"])
def test_what_runs_produced_beside_a_database_is_no_log(folder: str, stores: Path, tmp_path: Path) -> None:
    produced = tmp_path / "project" / folder / "table.csv"
    produced.parent.mkdir(parents=True)
    produced.write_text("step,val_loss\n1,2\n")
    store = "mlflow.db" if "mlruns" in folder else "trackio/norms.db"
    (stores / store).rename(tmp_path / "project" / "norms.db")
    if "media" in folder:
        with pytest.raises(NormbenchError, match="several sources"):
            read(tmp_path / "project")  # media may be anybody's
        (tmp_path / "project" / "norms.lock").touch()
    assert len(read(tmp_path / "project").runs) == 12


# --- stores in use ---------------------------------------------------------------------------------------------------


def test_a_store_that_is_being_written_to_is_read_whole_and_not_touched(tmp_path: Path) -> None:
    path = trackio(tmp_path / "p.db", {"ln": {"seed": 1}})
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("INSERT INTO metrics SELECT NULL, run_id, '2', run_name, 2, '{\"val/loss\": 0.5}' FROM configs")
        writer.commit()
        writer.execute("INSERT INTO metrics SELECT NULL, run_id, '3', run_name, 3, '{\"val/loss\": 0.25}' FROM configs")
        before = files(tmp_path)
        (run,) = read(path).runs
        assert curve(run) == {1: 1.0, 2: 0.5} and files(tmp_path) == before
        assert before["p.db-wal"][1]
    path.chmod(0o444)
    assert [*curve(read(path).runs[0])] == [1, 2] and [*files(tmp_path)] == ["p.db"]


def test_what_a_writer_has_not_committed_is_undone(tmp_path: Path) -> None:
    path = trackio(tmp_path / "p.db", {"ln": {"seed": 1}})
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("PRAGMA cache_size = 1")  # it writes pages before the end
        whole = path.read_bytes()
        rows = "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)"
        row = "SELECT NULL, run_id, '2', run_name, i, '{\"val/loss\": 0.5}' FROM configs, n"
        writer.execute("BEGIN")
        writer.execute(f"{rows} INSERT INTO metrics {row}")
        before = files(tmp_path)
        assert before["p.db"][1] != whole and "p.db-journal" in before
        assert curve(read(path).runs[0]) == {1: 1.0} and files(tmp_path) == before


def test_a_store_that_changes_all_the_time_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from normbench.files import reading

    path = trackio(tmp_path / "p.db", {"ln": {"seed": 1}})
    real, count = reading.read, iter(range(100))

    def changing(given: Any, most: int) -> bytes:
        return real(given, most) + bytes([next(count)])

    monkeypatch.setattr(reading, "read", changing)
    with pytest.raises(NormbenchError, match=r"p\.db.*faster"):
        read(path)


# --- other files -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["text", "empty", "foreign", "no run"])
def test_another_programs_file_is_refused_by_name_and_no_log_of_a_folder(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    path.write_text("text" if kind == "text" else "")
    if kind == "foreign":
        with closing(sqlite3.connect(path)) as store:
            store.execute("CREATE TABLE metrics (a)")
    if kind == "no run":
        path = trackio(tmp_path / "p.db", {})
        (tmp_path / "other.db").unlink()
    with pytest.raises(NormbenchError, match=rf"{path.name}: has no run"):
        read(path)
    with pytest.raises(NormbenchError, match="has no log"):
        read(tmp_path)
    (tmp_path / "ln_s1.csv").write_text("step,val_loss\n1,2\n")
    assert len(read(tmp_path).runs) == 1


@pytest.mark.parametrize("spoiled", ["cut", "page", "json", "blob", "columns"])
def test_a_broken_store_is_one_line(spoiled: str, tmp_path: Path) -> None:
    path = trackio(tmp_path / "p.db", {"ln": {"seed": 1}})
    content = path.read_bytes()
    if spoiled == "cut":
        path.write_bytes(content[:5000])
    elif spoiled == "page":
        path.write_bytes(content[:100] + b"\xff" * 3000 + content[3100:])
    else:
        with closing(sqlite3.connect(path)) as store:
            change = {
                "json": "UPDATE metrics SET metrics = '{'",
                "blob": "UPDATE metrics SET metrics = x'80'",
                "columns": "ALTER TABLE metrics DROP COLUMN step",
            }[spoiled]
            store.execute(change)
            store.commit()
    with pytest.raises(NormbenchError, match=r"p\.db") as caught:
        read(path)
    assert "\n" not in str(caught.value)


def test_a_store_of_another_source_than_the_map_says_is_refused(stores: Path) -> None:
    with pytest.raises(NormbenchError, match="has no run"):
        read(stores / "mlflow.db", source="trackio")


def test_values_that_are_texts_in_a_numbers_place_are_named(tmp_path: Path) -> None:
    path = trackio(tmp_path / "p.db", {"ln": {"seed": 1}})
    with closing(sqlite3.connect(path)) as store:
        store.execute('UPDATE metrics SET metrics = \'{"val/loss": "high"}\'')
        store.commit()
    with pytest.raises(NormbenchError, match="text 'high'"):
        read(path)


def test_objects_are_columns_and_what_is_no_number_is_named(tmp_path: Path) -> None:
    path = trackio(tmp_path / "p.db", {"ln": {"seed": 1}})
    row = {"val": {"loss": "NaN", "list": [1]}, "val/table": {"_type": "trackio.table", "size": 3}}
    with closing(sqlite3.connect(path)) as store:
        store.execute("UPDATE metrics SET metrics = ?", [json.dumps(row)])
        store.commit()
    whole = read(path)
    assert [(series.name, series.metric) for series in whole.map.series] == [("val.loss", "loss")]
    assert whole.runs[0].status == "diverged"
    assert all(any(f"not taken: {name}" in note for note in whole.notes) for name in ("val.list", "val/table"))


# --- mlruns ----------------------------------------------------------------------------------------------------------


def run_folder(stores: Path, name: str) -> Path:
    metas = (stores / "mlruns").rglob("meta.yaml")
    return next(path.parent for path in metas if f"run_name: {name}\n" in path.read_text())


def test_a_line_that_is_being_written_is_left_out(stores: Path) -> None:
    path = run_folder(stores, "ln_s1") / "metrics" / "val" / "loss"
    path.write_text(path.read_text().rstrip("\n")[:-1])
    whole = read(stores / "mlruns")
    runs = {(run.arm, run.seed): run for run in whole.runs}
    assert runs["ln", 1].config["import"]["counted"]["lost_bytes"] > 0
    assert any("after the last whole line" in note for note in whole.notes)
    assert [*curve(runs["ln", 1])] == [*range(7)] and [*curve(runs["ln", 2])] == [*range(8)]
    path.write_text("1 2 x\n")
    with pytest.raises(NormbenchError, match=r"val/loss: line 1"):
        read(stores / "mlruns")


def test_a_link_out_of_a_run_is_refused(stores: Path) -> None:
    (stores / "secret").write_text("key")
    (run_folder(stores, "ln_s1") / "params" / "key").symlink_to(stores / "secret")
    with pytest.raises(NormbenchError, match="link"):
        read(stores / "mlruns")


def test_what_a_run_produced_is_no_log_and_other_metas_are_no_runs(stores: Path) -> None:
    produced = run_folder(stores, "ln_s1") / "artifacts" / "table.csv"
    produced.parent.mkdir(exist_ok=True)
    produced.write_text("step,val_loss\n1,2\n")
    (stores / "mlruns" / "recipe").mkdir()
    (stores / "mlruns" / "recipe" / "meta.yaml").write_text("{% set version = 1 %}\n")
    assert len(read(stores / "mlruns").runs) == 12
    cut = run_folder(stores, "ln_s2") / "meta.yaml"
    cut.write_text(cut.read_text().partition("lifecycle_stage")[0])
    with pytest.raises(NormbenchError, match="run_id"):
        read(stores / "mlruns")


def test_deleted_runs_alone_are_no_log(stores: Path) -> None:
    with pytest.raises(NormbenchError, match=r"deleted: ln_s9"):
        read(run_folder(stores, "ln_s9"))


# --- arms ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("runs", "arms"),
    [
        ({"ln_s1": {}, "ln_s2": {}, "rms_s1": {}, "rms_s2": {}}, {"ln", "rms"}),  # by their names
        ({name: {"seed": i // 2, "norm": "lr"[i % 2]} for i, name in enumerate("abcd")}, {"l", "r"}),  # names tell none
        ({f"ln_s{i}": {"seed": i} for i in (1, 2)}, {"ln"}),
        ({f"{n}_s{i}": {"seed": i, "norm": n.upper()} for n in ("ln", "rms") for i in (1, 2)}, {"LN", "RMS"}),
        ({f"a_s{i}": {"seed": i, "norm": n, "_Group": n} for i, n in enumerate(("l", "l", "r", "r"))}, {"l", "r"}),
    ],
)  # fmt: skip
def test_arms_are_what_settings_or_names_say(runs: dict[str, Any], arms: set[str], tmp_path: Path) -> None:
    assert {run.arm for run in read(trackio(tmp_path / "p.db", runs)).runs} == arms


def test_names_that_tell_other_arms_than_settings_are_a_question(tmp_path: Path) -> None:
    runs = {f"{n}_s{i}": {"seed": i, "lr": 1 if n == "ln" else 2} for n in ("ln", "rms", "bn") for i in (1, 2)}
    with pytest.raises(OpenMap, match=r"config lr or path"):
        read(trackio(tmp_path / "p.db", runs))


def test_a_store_without_ids_is_read_by_names(tmp_path: Path) -> None:
    runs = read(trackio(tmp_path / "p.db", {"ln_s1": {}, "ln_s2": {}}, key="run_name")).runs
    assert sorted(run.seed for run in runs) == [1, 2]


def test_runs_of_one_name_are_two_where_their_ids_are(tmp_path: Path) -> None:
    path = trackio(tmp_path / "p.db", {"ln": {"seed": 1}, "other": {"seed": 2}})
    with closing(sqlite3.connect(path)) as store:
        for table in ("metrics", "configs"):
            store.execute(f"UPDATE {table} SET run_name = 'ln'")
        store.commit()
    assert sorted(run.seed for run in read(path).runs) == [1, 2]


# --- Aim -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("subsets", [["val"], ["train", "val"]])
def test_a_table_of_aim_is_a_csv_file_of_the_long_form(subsets: list[str], tmp_path: Path) -> None:
    """The columns of `Repo.query_metrics(...).dataframe()`, as pandas writes them; NaN is a blank there."""
    lines = [",idx,step,value,epoch,time,run.hash,run.hparams.norm,run.hparams.seed,metric.name,metric.context.subset"]
    for norm, subset in [(norm, subset) for norm in ("ln", "rms") for subset in subsets]:
        for step in range(3):
            value = "" if (norm, step) == ("rms", 2) else 1 / (1 + step)
            time = f"2026-11-01 00:00:0{step}.5"
            lines.append(f"{step},{step},{step},{value},0,{time},hash-{norm},{norm},1,loss,{subset}")
    (tmp_path / "aim.csv").write_text("\n".join(lines) + "\n")
    keys: dict[str, Any] = {
        "run": ["run.hash"],
        "long": {"name": "metric.name", "value": "value"},
        "x": {"step": {"column": "step"}},
        "labels": {"arm": {"column": "run.hparams.norm"}, "seed": {"column": "run.hparams.seed"}},
        "blank": "diverged",
    }
    if len(subsets) == 2:
        with pytest.raises(NormbenchError, match="split has train and val"):
            read(tmp_path, **keys, series=[{"column": "loss", "split": {"column": "metric.context.subset"}}])
        return
    runs = read(tmp_path, **keys, series=[{"column": "loss", "split": "valid"}]).runs
    curves = {run.arm: curve(run) for run in runs}
    assert curves == {"ln": {0: 1.0, 1: 0.5, 2: 1 / 3}, "rms": {0: 1.0, 1: 0.5, 2: "NaN"}}
