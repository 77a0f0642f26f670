"""All records of all runs as one flat table: CSV for anything, parquet for data frames."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from normbench.compare import configuration
from normbench.eval_variants import text
from normbench.runs import files
from normbench.runs.record import RunRecord

ALWAYS = ("model", "data", "norm")
Load = Callable[[Sequence[RunRecord]], Sequence[RunRecord]]  # gives runs their curves
BATCH = 50  # runs whose curves are in memory at once
PLACES = ("split", "mode", "variant", "order", "block", "epoch", "step", "examples")


@dataclass(frozen=True)
class Layout:
    """The columns of the table of some runs: those with one value per run, the place of a record, metrics."""

    settings: Mapping[str, Mapping[str, Any]]  # by run
    keys: Sequence[str]
    axes: Mapping[str, str]
    metrics: Sequence[str]

    @classmethod
    def of(cls, runs: Sequence[RunRecord], load: Load = list) -> Layout:
        """The columns of these runs: of the configuration the model, data, normalizer, and all keys that differ."""
        flats = map(_in_columns, configuration.flats([run.config for run in runs]))
        settings = {run.id: values for run, values in zip(runs, flats, strict=True)}
        keys = list(dict.fromkeys([*ALWAYS, *configuration.differing(settings.values())]))
        names = (*configuration.LABELS, *PLACES)
        axes = {
            key: f"axis {key}" if key in names else key
            for key in sorted({key for run in runs for key in run.axes} - {*keys})
        }
        keys_of_records = {tuple(record) for run in in_batches(runs, load) for record in run.records}
        metrics = set(chain.from_iterable(keys_of_records)) - set(PLACES)
        return cls(settings, keys, axes, sorted(metrics))

    @property
    def columns(self) -> list[str]:
        return [*configuration.LABELS, *self.keys, *self.axes.values(), *PLACES, *self.metrics]

    def rows(self, run: RunRecord) -> Iterator[list[Any]]:
        """A row per record of a run; None where the record lacks a value."""
        head = [
            *configuration.labels_of(run).values(),
            *(self.settings[run.id].get(key) for key in self.keys),
            *(run.axes.get(key) for key in self.axes),
        ]
        for record in run.records:
            place = {**record, "variant": text(record.get("variant", {})) or None}
            metrics = (None if record.get(key) is None else float(record[key]) for key in self.metrics)
            yield [*head, *(place.get(key) for key in PLACES), *metrics]


def rows(runs: Sequence[RunRecord]) -> tuple[list[str], list[list[Any]]]:
    """Column names and one row per record: labels, configuration, axes, place in the run, metrics."""
    layout = Layout.of(runs)
    return layout.columns, [row for run in runs for row in layout.rows(run)]


def settings(run: RunRecord) -> dict[str, Any]:
    """The configuration of a run by key, with values that fit into a column: a list as the command line takes it."""
    return _in_columns(configuration.flat(run.config))


def _in_columns(flat: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: value if value is None or isinstance(value, str | int | float) else configuration.text(value)
        for key, value in flat.items()
    }


def in_batches(runs: Sequence[RunRecord], load: Load) -> Iterator[RunRecord]:
    """Each run with its curve, a batch of them in memory at once."""
    for first in range(0, len(runs), BATCH):
        yield from load(runs[first : first + BATCH])


def write_csv(runs: Sequence[RunRecord], path: Path, load: Load = list) -> int:
    """Numbers in their shortest round-trip form, `nan` and `inf` as such, empty where a value is missing.

    load: gives runs their curves, for runs without.
    """
    layout, count = Layout.of(runs, load), 0
    files.make_folder(path.parent)
    with files.alone(path.parent), files.atomic(path) as file:
        lines = io.TextIOWrapper(file, encoding="utf-8", newline="")
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(layout.columns)
        for run in in_batches(runs, load):
            writer.writerows(layout.rows(run))
            count += len(run.records)
        lines.detach()
    return count


def write_parquet(runs: Sequence[RunRecord], path: Path, load: Load = list) -> int:
    """The same columns with types; NaN is a value, a missing one is null."""
    import pyarrow
    import pyarrow.parquet

    names, table = rows(list(in_batches(runs, load)))
    columns = dict(zip(names, map(list, zip(*table, strict=True)), strict=True))
    for name, values in columns.items():  # an axis may hold numbers in one experiment and words in another
        kinds = {type(value) for value in values if value is not None}
        if len(kinds) > 1 and not kinds <= {int, float}:
            columns[name] = [None if value is None else str(value) for value in values]
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(columns), buffer)
    files.make_folder(path.parent)
    with files.alone(path.parent):
        files.atomic_write(path, buffer.getvalue())
    return len(table)
