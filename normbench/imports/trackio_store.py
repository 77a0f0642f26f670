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
    (count,) = store.execute("SELECT COUNT(*) FROM metrics").fetchone()
    check_size(path, count, 1)
    key = "run_id" if _has(store, "metrics", "run_id") else "run_name"  # before version 0.24
    names, configs = dict[str, str](), dict[str, dict[str, Any]]()
    for run, name, text in store.execute(f"SELECT {key}, run_name, config FROM configs ORDER BY id"):
        config = {k: v for k, v in reading.parse(text).items() if k not in OF_TOOL and (k, v) != ("_Group", None)}
        names[run], configs[run] = name, flat(config)
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    logged = f"SELECT {key}, run_name, step, metrics FROM metrics ORDER BY timestamp, id"  # as Trackio's own API
    for run, name, step, text in store.execute(logged):
        names[run] = name
        rows[run].append(_row(text) | {"step": step})
    note = ""
    if _has(store, "system_metrics", key):
        (system,) = store.execute(f"SELECT COUNT(DISTINCT {key}) FROM system_metrics").fetchone()
        note = f"system metrics of {system} of its {len(names)} runs are left out" if system else ""
    logs = [Log(source="trackio", tables=[], note=note, **log)] if names else []
    for run, name in names.items():
        of_run = {**log, "path": f"{log['path']}/{name}", "run": f"{name} ({run})", "config": configs.get(run, {})}
        logs.append(Log(source="trackio", tables=[rows_table(rows[run], path)], **of_run))
    return logs


def _has(store: sqlite3.Connection, table: str, column: str) -> bool:
    return any(name == column for _, name, *_ in store.execute(f"PRAGMA table_info({table})"))


def _row(text: str | bytes) -> dict[str, Any]:
    """Numbers and texts, `train.loss` of objects in objects; a picture or a table is a text."""
    row = reading.parse(text)
    media = {name: json.dumps(value) for name, value in row.items() if isinstance(value, dict) and "_type" in value}
    return {name: NUMBERS.get(value, value) for name, value in flat(row | media).items()}
