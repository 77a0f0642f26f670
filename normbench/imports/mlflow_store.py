"""MLflow's stores, by sqlite3 and files alone: a database, or a folder of files for each run (`mlruns`)."""

from __future__ import annotations

import hashlib
import sqlite3
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from normbench.files import reading
from normbench.imports.log import LARGEST, Log, check_size, flat, refuse

SYSTEM = "system/"  # what the names of metrics of the machine begin with
STATES = {1: "RUNNING", 2: "SCHEDULED", 3: "FINISHED", 4: "FAILED", 5: "KILLED"}  # files have the numbers
PARENT, NAME = "mlflow.parentRunId", "mlflow.runName"  # tags


class StoredRun(NamedTuple):
    id: str
    names: tuple[str, ...]  # of its experiment, of the run that it is nested in, its own
    state: str
    deleted: bool
    params: Mapping[str, str]
    tags: Mapping[str, str]
    points: Mapping[str, Sequence[tuple[int, float, int]]]  # by metric: time, value and step


def read(store: sqlite3.Connection, path: Path, log: dict[str, Any]) -> list[Log]:
    """The runs of a database."""
    (count,) = store.execute("SELECT COUNT(*) FROM metrics").fetchone()
    check_size(path, count, 4)
    points, params, tags = (defaultdict[str, dict[str, Any]](dict) for _ in range(3))
    for table, texts in (("params", params), ("tags", tags)):
        for run, key, value in store.execute(f"SELECT run_uuid, key, value FROM {table}"):
            texts[run][key] = value
    logged = "SELECT run_uuid, key, timestamp, value, is_nan, step FROM metrics ORDER BY rowid"
    for run, key, time, value, is_nan, step in store.execute(logged):
        points[run].setdefault(key, []).append((time, float("nan") if is_nan else value, step))
    stored = """SELECT run_uuid, runs.name, experiments.name, status, runs.lifecycle_stage != 'active'
        FROM runs LEFT JOIN experiments USING (experiment_id) ORDER BY start_time, run_uuid"""
    rows = store.execute(stored).fetchall()
    names = {run: name or tags[run].get(NAME) or run for run, name, *_ in rows}
    runs = []
    for run, _, experiment, state, deleted in rows:
        places = (experiment or "", names.get(tags[run].get(PARENT, ""), ""), names[run])
        runs.append(StoredRun(run, places, state, deleted, params[run], tags[run], points[run]))
    return _logs(runs, path, log)


def read_files(content: bytes, path: Path, log: dict[str, Any], declared: str | None = None) -> list[Log]:
    """The run of this meta.yaml; none where it is one of an experiment, of a model or of another program."""
    if b"artifact_uri:" not in content:
        return []
    meta, folder = _yaml(content), path.parent
    if "run_id" not in meta:
        raise refuse(path, "has no run_id: it is no run of MLflow, or is cut.")
    contents = {kind: _contents(folder, kind) for kind in ("params", "tags", "metrics")}
    params, tags = ({key: text.decode() for key, text in contents[kind].items()} for kind in ("params", "tags"))
    parent = _name(folder.parent / Path(tags[PARENT]).name, "run_name") if PARENT in tags else ""
    name = str(meta.get("run_name") or tags.get(NAME) or meta["run_id"])
    stored = StoredRun(
        str(meta["run_id"]),
        (_name(folder.parent, "name"), parent, name),
        STATES.get(meta.get("status", 1), str(meta.get("status"))),
        meta.get("lifecycle_stage", "active") != "active" or ".trash" in folder.parts,
        params,
        tags,
        {key: _points(text, folder / "metrics" / key) for key, text in contents["metrics"].items()},
    )
    everything = b"".join([content, *(text for texts in contents.values() for text in texts.values())])
    file = {**log["file"], "sha256": hashlib.sha256(everything).hexdigest(), "bytes": len(everything)}
    lost = sum(len(text) - text.rfind(b"\n") - 1 for text in contents["metrics"].values())
    return _logs([stored], path, {**log, "file": file, "lost": lost})


def _logs(runs: Sequence[StoredRun], path: Path, log: dict[str, Any]) -> list[Log]:
    """A log for each run that was not deleted, before them one that says what is left out and what did not finish."""
    active = [run for run in runs if not run.deleted]
    system = {key for run in active for key in run.points if key.startswith(SYSTEM)}
    texts = {
        "not finished": [f"{run.names[-1]} is {run.state}" for run in active if run.state != "FINISHED"],
        "left out, for they are deleted": [run.names[-1] for run in runs if run.deleted],
    }
    notes = [f"{len(system)} system metrics are left out"] if system else []
    notes += [f"{title}: {', '.join(names)}" for title, names in texts.items() if names]
    notes += [f"{log['lost']} bytes after the last whole line are left out"] if log.get("lost") else []
    first = [Log(source="mlflow", tables=[], note="; ".join(notes), **log)] if runs else []
    return first + [_log(run, path, log) for run in active]


def _log(run: StoredRun, path: Path, log: dict[str, Any]) -> Log:
    """A table for each metric, in the order of time: what a resumed run logs stands behind what it had."""
    import pyarrow as pa

    tables = [pa.table({})]
    for key, points in run.points.items():
        if points and key != "step" and not key.startswith(SYSTEM):
            _, values, steps = zip(*sorted(points, key=lambda point: point[0]), strict=True)
            tables.append(pa.table({"step": pa.array(steps, pa.int64()), key: pa.array(values, pa.float64())}))
    check_size(path, 0, len(tables))
    tags = {f"tag.{key}": value for key, value in run.tags.items() if not key.startswith("mlflow.")}
    of_run = {**log, "path": "/".join(filter(None, run.names)), "run": f"{run.names[-1]} ({run.id})"}
    return Log(source="mlflow", tables=tables, config=flat({**tags, **run.params}), **of_run)


def _yaml(content: bytes) -> Mapping[str, Any]:
    with suppress(ValueError, yaml.YAMLError):
        if isinstance(value := reading.load_yaml(content.decode()), dict):
            return value
    return {}


def _name(folder: Path, key: str) -> str:
    """The name of an experiment or a run by its meta.yaml, else that of its folder."""
    path = folder / "meta.yaml"
    return str(_yaml(reading.read(path, LARGEST)).get(key) or folder.name) if path.is_file() else folder.name


def _contents(folder: Path, kind: str) -> dict[str, bytes]:
    """Every file below a folder of a run, by its key, which may have slashes."""
    contents = {}
    for path in sorted((folder / kind).rglob("*")):
        if path.is_file():
            if not path.resolve().is_relative_to(folder.resolve()):
                raise refuse(path, "is a link to a file outside of its run.")
            contents[path.relative_to(folder / kind).as_posix()] = reading.read(path, LARGEST)
    return contents


def _points(content: bytes, path: Path) -> list[tuple[int, float, int]]:
    """The whole lines of a metric: time, value, step, and the data set in some."""
    points = []
    for number, line in enumerate(content.decode().split("\n")[:-1], 1):  # who writes may be within the last one
        try:
            time, value, step, *_ = line.split()
            points.append((int(time), float(value), int(step)))
        except ValueError:
            raise refuse(path, f"line {number} is no time, value and step.") from None
    return points
