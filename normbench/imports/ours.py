"""What this program wrote itself, packs and tables of `normbench export`: their runs keep all that they say."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from normbench import reading
from normbench.imports.log import LARGEST, Log, refuse
from normbench.imports.map_keys import Map
from normbench.imports.parts import groups
from normbench.imports.runs import number, refuse_twins, written
from normbench.runs import exported, files, imported, pack
from normbench.runs.curve import Curve
from normbench.runs.exported import CONTRASTS, PLACES, RUNS
from normbench.runs.record import RunRecord
from normbench.stored import LOGGED

SOURCES = ("pack", "export")
CHOICES = ("model", "data", "norm")  # columns of every export


def runs(name: str, logs: Sequence[Log], map: Map) -> list[RunRecord]:
    """The runs of packs and exports as those of an import. NormbenchError for two of one arm and seed."""
    if keys := written(map).keys() - {"source"}:
        raise refuse(
            logs[0].file["path"],
            f"it says itself what is what, and the map has {', '.join(sorted(keys))}. Leave them out, or read a table "
            "like any other: source: csv.",
        )
    source = {"source": logs[0].source}
    about = {**source, "map_sha256": files.seal(source)}
    found = {
        run.id: imported.of_own(name, run, {**about, "files": [dict(log.file)]}) for log in logs for run in log.runs
    }
    if not found:
        raise refuse(logs[0].file["path"], "it has no runs, or is no table of normbench export.")
    records = [found[run] for run in sorted(found)]
    refuse_twins(records, "Export one experiment at one fidelity: normbench export csv EXPERIMENT fidelity=paper")
    return records


def read_pack(content: bytes, path: Path, log: dict[str, Any], declared: str | None = None) -> Log:
    beside = _bytes(path.with_name(CONTRASTS))
    return Log(source="pack", tables=[], runs=pack.read(path), contrasts=beside, **log)


def read_table(table: Any, path: Path, log: dict[str, Any], lost: int = 0) -> Log:
    """Of an exported table. Without the file beside it, its runs have the labels and options that are its columns."""
    heads, beside = exported.read_runs(path), exported.beside(path, RUNS)
    names = table.column_names
    metrics = {key: key.removeprefix("metric ") for key in names[names.index("examples") + 1 :]}
    found = []
    for (run,), rows in groups(table, ["run"]):
        curve = Curve(_records(rows, {key: key for key in PLACES} | metrics))
        if heads and run not in heads:
            raise refuse(beside, f"run {run} of {path.name} is not in it. Delete it, or export again.")
        found.append(replace(heads[run], records=curve) if heads else _of_columns(run, rows, curve))
    note = "" if heads else (
        f"{beside.name} is not beside it: what is monitored, and so which evaluation is the best, what was evaluated "
        "there alone, and the configuration but for its columns are not known"
    )  # fmt: skip
    contrasts = _bytes(exported.beside(path, CONTRASTS))
    return Log(source="export", tables=[], runs=found, contrasts=contrasts, lost=lost, note=note, **log)


def _records(rows: Any, names: Mapping[str, str]) -> list[dict[str, Any]]:
    """Numbers as a log has them; what is empty is not there."""
    rows = rows.select([key for key in names if rows.column(key).null_count < len(rows)])
    return [{names[key]: _logged(key, one) for key, one in row.items() if one is not None} for row in rows.to_pylist()]


def _logged(key: str, value: Any) -> Any:
    if key == "variant":
        return {option: number(one) for option, _, one in (word.partition("=") for word in value.split())}
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return int(value) if key == "epoch" and value.is_integer() else value


def _of_columns(run: str, rows: Any, curve: Curve) -> RunRecord:
    """The run that a table alone gives; options that differ from run to run are its axes."""
    row = rows.slice(0, 1).to_pylist()[0]
    names = rows.column_names
    own = {key: row[key] for key in names[names.index("status") + 1 : names.index("split")] if row[key] is not None}
    axes = {
        key.removeprefix("axis "): number(one) if isinstance(one, str) else one
        for key, one in own.items()
        if key not in CHOICES
    }
    config = {key: {"name": own[key]} for key in CHOICES if key in own}
    imported.set_options(config, axes)
    arm, control, status, experiment = (row[key] or "" for key in ("arm", "control", "status", "experiment"))
    head = RunRecord(run, experiment, arm, row["seed"], status, 0, axes, control, LOGGED, config=config)
    return replace(head, records=curve, steps=curve.last_step)


def _bytes(path: Path) -> bytes:
    return reading.read(path, LARGEST, links=False) if path.exists() else b""
