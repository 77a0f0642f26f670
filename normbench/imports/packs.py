"""Our own packs as logs: a log for each run; its labels and monitor are in its configuration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from normbench.imports.log import Log, flat
from normbench.imports.tables import column
from normbench.runs import pack
from normbench.runs.record import RunRecord

MODES = {"running": "running", "eval": "eval", "both": "logged", "logged": "logged"}
PLACE = ("step", "epoch", "examples", "order", "block")


def read(content: bytes, path: Path, log: dict[str, Any], declared: str | None = None) -> list[Log]:
    """The default evaluations; those of variants, and what a probe computed, are no curves."""
    return [
        Log(source="pack", tables=[*_tables(run)], config=_labels(run), run=run.id, **log) for run in pack.read(path)
    ]


def _tables(run: RunRecord) -> Iterator[Any]:
    import pyarrow as pa

    for block in run.records.blocks:
        if not block.variant and block.mode in MODES and "order" not in block.columns:
            yield pa.table(
                {
                    key if key in PLACE else f"{block.split}/{MODES[block.mode]}/{key}": column([*values])
                    for key, values in block.columns.items()
                }
            )


def _labels(run: RunRecord) -> dict[str, Any]:
    labels = {"arm": run.arm, "seed": run.seed, "control": run.control, "axes": dict(run.axes)}
    return flat({"labels": labels, "monitor": run.monitor, "config": run.config})


def whole_map(logs: Sequence[Log]) -> dict[str, Any]:
    """What a pack says of itself."""
    first = logs[0].config
    names = {name: None for log in logs for table in log.tables for name in table.column_names if name not in PLACE}
    series = [dict(zip(("column", "split", "mode", "metric"), (n, *n.split("/", 2)), strict=True)) for n in names]
    watched = {key: first[f"monitor.{key}"] for key in ("split", "metric", "goal")}
    for one in series:
        if (one["split"], one["metric"]) == (watched["split"], watched["metric"]):
            one["goal"] = watched["goal"]
    axes = [key.removeprefix("labels.axes.") for key in first if key.startswith("labels.axes.")]
    labels = {label: {"config": f"labels.{label}"} for label in ("arm", "seed", "control")}
    return {
        "run": "run_id",
        "x": {"step": {"column": "step"}, "epoch": {"column": "epoch"}},
        "series": series,
        "labels": {**labels, "axes": {axis: {"config": f"labels.axes.{axis}"} for axis in axes}},
        **({"monitor": {"split": watched["split"], "metric": watched["metric"]}} if watched["goal"] else {}),
    }
