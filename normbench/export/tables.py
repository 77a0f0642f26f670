"""All records of all runs as one flat table: CSV for anything, parquet for data frames."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from normbench.compare import configuration
from normbench.runs import files
from normbench.runs.record import RunRecord
from normbench.variants import text

ALWAYS = ("model", "data", "norm")
PLACES = ("split", "mode", "variant", "order", "block", "epoch", "step", "examples")


def rows(runs: Sequence[RunRecord]) -> tuple[list[str], list[dict[str, Any]]]:
    """Column names and one row per record: labels, configuration, axes, place in the run, metrics.

    Of the configuration the model, data and normalizer, and what differs between these runs. What a record lacks is
    None.
    """
    known = {run.id: settings(run) for run in runs}
    keys = dict.fromkeys([*ALWAYS, *configuration.differing(known.values())])
    axes = {key: _column(key) for key in sorted({key for run in runs for key in run.axes} - keys.keys())}
    metrics = sorted({key for run in runs for record in run.records for key in record} - set(PLACES))
    columns = [*configuration.LABELS, *keys, *axes.values(), *PLACES, *metrics]
    table = []
    for run in runs:
        head = configuration.labels_of(run) | {key: known[run.id].get(key) for key in keys}
        head |= {column: run.axes.get(key) for key, column in axes.items()}
        for record in run.records:
            values = {key: None if record.get(key) is None else float(record[key]) for key in metrics}
            place = {key: record.get(key) for key in PLACES} | {"variant": text(record.get("variant", {})) or None}
            table.append(head | place | values)
    return columns, table


def settings(run: RunRecord) -> dict[str, Any]:
    """What the run is, by key, each a value that fits into a column: a list as the command line takes it."""
    return {
        key: value if value is None or isinstance(value, str | int | float) else configuration.text(value)
        for key, value in configuration.flat(run.config).items()
    }


def _column(axis: str) -> str:
    """The axis by its own name, unless a label or a place has that name."""
    return f"axis {axis}" if axis in (*configuration.LABELS, *PLACES) else axis


def write_csv(runs: Sequence[RunRecord], path: Path) -> int:
    """Numbers in their shortest round-trip form, `nan` and `inf` as such, nothing for what is missing."""
    columns, table = rows(runs)
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    files.make_folder(path.parent)
    with files.alone(path.parent):
        files.atomic_write(path, text.getvalue().encode())
    return len(table)


def write_parquet(runs: Sequence[RunRecord], path: Path) -> int:
    """The same columns with types; NaN is a value, what is missing is null."""
    import pyarrow
    import pyarrow.parquet

    columns, table = rows(runs)
    for name in columns:  # an axis may hold numbers in one experiment and words in another
        kinds = {type(row[name]) for row in table if row[name] is not None}
        if len(kinds) > 1 and not kinds <= {int, float}:
            table = [row | {name: None if row[name] is None else str(row[name])} for row in table]
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({name: [row[name] for row in table] for name in columns}), buffer)
    files.make_folder(path.parent)
    with files.alone(path.parent):
        files.atomic_write(path, buffer.getvalue())
    return len(table)
