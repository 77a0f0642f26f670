"""MLflow's stores, by sqlite3 and files alone: a database, or a folder of files for each run (`mlruns`)."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

import yaml

from normbench.files import reading
from normbench.imports.log import LARGEST, Log, check_size, flat, refuse

Points = Mapping[str, Sequence[tuple[int, float, int]]]  # by metric: time, value and step, as the files have them
SYSTEM = "system/"  # what the names of metrics of the machine begin with
STATES = {1: "RUNNING", 2: "SCHEDULED", 3: "FINISHED", 4: "FAILED", 5: "KILLED"}  # files have the numbers
PARENT, NAME = "mlflow.parentRunId", "mlflow.runName"  # tags


@dataclass(frozen=True)
class StoredRun:
    """A run of either store; `parent`: the name of the run that it is nested in."""

    id: str
    name: str
    experiment: str
    parent: str
    state: str
    deleted: bool
    params: Mapping[str, str]
    tags: Mapping[str, str]
    points: Points


def read(store: sqlite3.Connection, path: Path, log: dict[str, Any]) -> list[Log]:
    """The runs of a database."""
    (count,) = store.execute("SELECT COUNT(*) FROM metrics").fetchone()
    check_size(path, count, 4)
    texts: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for table in ("params", "tags"):
        for run, key, value in store.execute(f"SELECT run_uuid, key, value FROM {table}"):
            texts[table, run][key] = value
    points: dict[str, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    logged = "SELECT run_uuid, key, timestamp, value, is_nan, step FROM metrics ORDER BY rowid"
    for run, key, time, value, is_nan, step in store.execute(logged):
        points[run][key].append((time, float("nan") if is_nan else value, step))
    experiments = dict(store.execute("SELECT experiment_id, name FROM experiments"))
    stored = "SELECT run_uuid, name, experiment_id, status, lifecycle_stage FROM runs ORDER BY start_time, run_uuid"
    rows = {row[0]: row for row in store.execute(stored)}
    names = {run: row[1] or texts["tags", run].get(NAME) or run for run, row in rows.items()}
    runs = []
    for run, (_, _, experiment, state, stage) in rows.items():
        params, tags = texts["params", run], texts["tags", run]
        parent = names.get(tags.get(PARENT, ""), "")
        words = (run, names[run], str(experiments.get(experiment, experiment)), parent, state)
        runs.append(StoredRun(*words, stage != "active", params, tags, points[run]))
    return _logs(runs, path, log)


def read_files(content: bytes, path: Path, log: dict[str, Any], declared: str | None = None) -> list[Log]:
    """The run of this meta.yaml; none where it is one of an experiment, of a model or of another program."""
    if b"artifact_uri:" not in content:
        return []
    meta, folder = _yaml(content), path.parent
    run = str(meta.get("run_id") or meta.get("run_uuid") or "")  # its former name
    if not run:
        raise refuse(path, "has no run_id: it is no run of MLflow, or is cut.")
    kinds = [_contents(folder, kind) for kind in ("params", "tags", "metrics")]
    params, tags = ({key: text.decode() for key, text in texts.items()} for texts in kinds[:2])
    stored = StoredRun(
        run,
        str(meta.get("run_name") or tags.get(NAME) or run),
        _name(folder.parent, "name"),
        _name(folder.parent / Path(tags[PARENT]).name, "run_name") if PARENT in tags else "",
        STATES.get(meta.get("status", 1), str(meta.get("status"))),
        meta.get("lifecycle_stage", "active") != "active" or ".trash" in folder.parts,
        params,
        tags,
        {key: _points(text, folder / "metrics" / key) for key, text in kinds[2].items()},
    )
    everything = [content, *(text for texts in kinds for text in texts.values())]
    digest = hashlib.sha256(b"".join(everything)).hexdigest()
    file = {**log["file"], "sha256": digest, "bytes": sum(map(len, everything))}
    lost = sum(len(text) - text.rfind(b"\n") - 1 for text in kinds[2].values())
    return _logs([stored], path, {**log, "file": file, "lost": lost})


def _logs(runs: Sequence[StoredRun], path: Path, log: dict[str, Any]) -> list[Log]:
    """A log for each run that was not deleted, before them one that says what is left out and what did not finish."""
    active = [run for run in runs if not run.deleted]
    deleted = [run.name for run in runs if run.deleted]
    broken = [f"{run.name} is {run.state}" for run in active if run.state != "FINISHED"]
    system = {key for run in active for key in run.points if key.startswith(SYSTEM)}
    notes = [
        f"{len(system)} system metrics are left out" if system else "",
        f"not finished: {', '.join(broken)}" if broken else "",
        f"left out, for they are deleted: {', '.join(deleted)}" if deleted else "",
        f"{log['lost']} bytes after the last whole line are left out" if log.get("lost") else "",
    ]
    first = [Log(source="mlflow", tables=[], note="; ".join(filter(None, notes)), **log)] if runs else []
    return first + [_log(run, path, log) for run in active]


def _log(run: StoredRun, path: Path, log: dict[str, Any]) -> Log:
    """A table for each metric, in the order of time: what a resumed run logs stands behind what it had."""
    import pyarrow as pa

    tables = [pa.table({})]
    for key, points in run.points.items():
        if points and key != "step" and not key.startswith(SYSTEM):
            _, values, steps = zip(*sorted(points, key=itemgetter(0)), strict=True)
            tables.append(pa.table({"step": pa.array(steps, pa.int64()), key: pa.array(values, pa.float64())}))
    check_size(path, 0, len(tables))
    tags = {f"tag.{key}": value for key, value in run.tags.items() if not key.startswith("mlflow.")}
    names = "/".join(filter(None, (run.experiment, run.parent, run.name)))
    config = flat({**tags, **run.params})
    return Log(source="mlflow", tables=tables, config=config, run=f"{run.name} ({run.id})", **{**log, "path": names})


def _yaml(content: bytes) -> Mapping[str, Any]:
    try:
        value = reading.load_yaml(content.decode())
    except (ValueError, yaml.YAMLError):
        value = None
    return value if isinstance(value, dict) else {}


def _name(folder: Path, key: str) -> str:
    """The name of an experiment or a run by its meta.yaml, else that of its folder."""
    path = folder / "meta.yaml"
    return str(_yaml(reading.read(path, LARGEST)).get(key) or folder.name) if path.is_file() else folder.name


def _contents(folder: Path, kind: str) -> dict[str, bytes]:
    """Every file below a folder of a run, by its key, which may have slashes."""
    contents, real = {}, os.path.realpath(folder)
    for path in sorted((folder / kind).rglob("*")):
        if path.is_file():
            if not os.path.realpath(path).startswith(os.path.join(real, "")):
                raise refuse(path, "is a link to a file outside of its run.")
            contents[path.relative_to(folder / kind).as_posix()] = reading.read(path, LARGEST)
    return contents


def _points(content: bytes, path: Path) -> list[tuple[int, float, int]]:
    """The whole lines of a metric: time, value, step, and the data set in some; older ones have no step."""
    points = []
    for number, line in enumerate(content.decode().split("\n")[:-1], 1):  # who writes may be within the last one
        try:
            time, value, *rest = line.split()
            points.append((int(time), float(value), int(rest[0]) if rest else 0))
        except ValueError:
            raise refuse(path, f"line {number} is no time, value and step.") from None
    return points
