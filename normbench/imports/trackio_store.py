"""Trackio's stores: a project each, with rows of JSON (https://huggingface.co/docs/trackio/storage_schema)."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from pathlib import Path
from typing import Any

from normbench.files import reading
from normbench.imports.log import Log, check_size, flat
from normbench.imports.tables import rows_table

OF_TOOL = ("_Username", "_Created")  # of a configuration; _Group is the user's
NUMBERS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}  # as texts, for JSON has none


def read(store: sqlite3.Connection, path: Path, log: dict[str, Any]) -> list[Log]:
    """Its runs, each with a row for each call of `log`: a run that was resumed has one id, and its rows go on."""
    columns = {column[1] for column in store.execute("PRAGMA table_info(metrics)")}
    key = "run_id" if "run_id" in columns else "run_name"  # before version 0.24
    names, configs = dict[str, str](), dict[str, dict[str, Any]]()
    for run, name, text in store.execute(f"SELECT {key}, run_name, config FROM configs ORDER BY id"):
        names[run], configs[run] = name, _config(text)
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    (count,) = store.execute("SELECT COUNT(*) FROM metrics").fetchone()
    check_size(path, count, 1)
    logged = f"SELECT {key}, run_name, step, metrics FROM metrics ORDER BY timestamp, id"  # as Trackio's own API
    for run, name, step, text in store.execute(logged):
        names[run] = name
        rows[run].append(_row(text) | {"step": step})
    system = _system(store, key)
    note = f"system metrics of {system} of its {len(names)} runs are left out" if system else ""
    logs = [
        Log(
            source="trackio",
            tables=[rows_table(rows[run], path)],
            config=flat(configs.get(run, {})),
            run=f"{name} ({run})",
            **{**log, "path": f"{log['path']}/{name}"},
        )
        for run, name in names.items()
    ]
    return [Log(source="trackio", tables=[], note=note, **log), *logs] if logs else []


def _config(text: str | bytes) -> dict[str, Any]:
    config = reading.parse(text)
    return {key: value for key, value in config.items() if key not in OF_TOOL and (key, value) != ("_Group", None)}


def _row(text: str | bytes) -> dict[str, Any]:
    """Numbers and texts, `train.loss` of objects in objects; a picture or a table is a text."""
    row = reading.parse(text)
    media = {name: json.dumps(value) for name, value in row.items() if isinstance(value, dict) and "_type" in value}
    return {name: NUMBERS.get(value, value) for name, value in flat(row | media).items()}


def _system(store: sqlite3.Connection, key: str) -> int:
    """How many runs have metrics of the machine."""
    if not store.execute("PRAGMA table_info(system_metrics)").fetchone():
        return 0
    (count,) = store.execute(f"SELECT COUNT(DISTINCT {key}) FROM system_metrics").fetchone()
    return int(count)
