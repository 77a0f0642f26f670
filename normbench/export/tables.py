"""All records of all runs as one flat table: CSV for anything, parquet for data frames."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any

from normbench.compare import configuration
from normbench.eval_variants import text
from normbench.runs import files
from normbench.runs.columns import SAME
from normbench.runs.record import RunRecord

ALWAYS = ("model", "data", "norm")
PLACES = ("split", "mode", "variant", "order", "block", "epoch", "step", "examples")


@dataclass(frozen=True)
class Layout:
    """The columns of the table of some runs: those with one value per run, the place of a record, metrics."""

    settings: Mapping[str, Mapping[str, Any]]  # by run
    keys: Sequence[str]
    axes: Mapping[str, str]
    metrics: Sequence[str]

    @classmethod
    def of(cls, runs: Sequence[RunRecord]) -> Layout:
        """The columns of these runs: of the configuration the model, data, normalizer, and all keys that differ."""
        flats = map(_in_columns, configuration.flats([run.config for run in runs]))
        settings = {run.id: values for run, values in zip(runs, flats, strict=True)}
        keys = list(dict.fromkeys([*ALWAYS, *configuration.differing(settings.values())]))
        axes = {key: _column(key) for key in sorted({key for run in runs for key in run.axes} - {*keys})}
        metrics = {key for run in runs for record in run.columns.kinds() for key in record} - set(PLACES)
        return cls(settings, keys, axes, sorted(metrics))

    @property
    def columns(self) -> list[str]:
        return [*configuration.LABELS, *self.keys, *self.axes.values(), *PLACES, *self.metrics]

    def head(self, run: RunRecord) -> dict[str, Any]:
        """The first columns, equal in all rows of a run."""
        head = configuration.labels_of(run) | {key: self.settings[run.id].get(key) for key in self.keys}
        return head | {column: run.axes.get(key) for key, column in self.axes.items()}


def rows(runs: Sequence[RunRecord]) -> tuple[list[str], list[dict[str, Any]]]:
    """Column names and one row per record: labels, configuration, axes, place in the run, metrics.

    A value that a record lacks is None.
    """
    layout = Layout.of(runs)
    table = []
    for run in runs:
        head = layout.head(run)
        for record in run.records:
            values = {key: None if record.get(key) is None else float(record[key]) for key in layout.metrics}
            place = {key: record.get(key) for key in PLACES} | {"variant": text(record.get("variant", {})) or None}
            table.append(head | place | values)
    return layout.columns, table


def settings(run: RunRecord) -> dict[str, Any]:
    """The configuration of a run by key, with values that fit into a column: a list as the command line takes it."""
    return _in_columns(configuration.flat(run.config))


def _in_columns(flat: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: value if value is None or isinstance(value, str | int | float) else configuration.text(value)
        for key, value in flat.items()
    }


def _column(axis: str) -> str:
    """The axis by its own name, unless a label or a place has that name."""
    return f"axis {axis}" if axis in (*configuration.LABELS, *PLACES) else axis


def write_csv(runs: Sequence[RunRecord], path: Path) -> int:
    """Numbers in their shortest round-trip form, `nan` and `inf` as such, empty where a value is missing."""
    layout = Layout.of(runs)
    files.make_folder(path.parent)
    with files.alone(path.parent), files.atomic(path) as file:
        file.write(_line(layout.columns))
        for run in runs:
            file.write("".join(_lines(run, layout)).encode())
    return sum(len(run.records) for run in runs)


def _line(values: Iterable[Any]) -> bytes:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(values)
    return line.getvalue().encode()


def _lines(run: RunRecord, layout: Layout) -> Iterator[str]:
    """A line per record. Records with the same keys are formatted together, ten times as fast as one by one."""
    head = _line(layout.head(run).values()).decode()[:-1]
    return run.columns.each(lambda first, columns: _alike(head, first, columns, layout))


def _alike(head: str, first: Mapping[str, Any], columns: Mapping[str, Sequence[Any]], layout: Layout) -> Iterator[str]:
    """The lines of records with the same keys, split, mode and variant."""
    same = {**{key: first.get(key) for key in SAME}, "variant": text(first.get("variant", {})) or None}
    cells: list[Iterable[str]] = [repeat(head)]
    for key in (*PLACES, *layout.metrics):
        if key not in columns:
            cells.append(repeat(_line([same.get(key), ""]).decode()[:-2]))
        elif key in PLACES:
            cells.append(map(repr, columns[key]))
        else:
            cells.append(map(repr, map(float, columns[key])))
    count = len(next(iter(columns.values())))
    return (f"{line}\n" for line, _ in zip(map(",".join, zip(*cells, strict=False)), range(count), strict=False))


def write_parquet(runs: Sequence[RunRecord], path: Path) -> int:
    """The same columns with types; NaN is a value, a missing one is null."""
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
