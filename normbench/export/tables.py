"""All records of all runs as one flat table: CSV for anything, parquet and data frames with types."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from normbench.compare import configuration
from normbench.core.eval_variants import text
from normbench.runs import files
from normbench.runs.curve import Block
from normbench.runs.run import LABELS, Run

if TYPE_CHECKING:
    import pyarrow

ALWAYS = ("model", "data", "norm")
PLACES = {
    **dict.fromkeys(("split", "mode", "variant"), "string"),
    **dict.fromkeys(("order", "block"), "int64"),
    "epoch": "float64",
    **dict.fromkeys(("step", "examples"), "int64"),
}  # what places a record in its run, and the type of each
BATCH = 50  # runs that are a table in memory at once


@dataclass(frozen=True)
class Layout:
    """The columns of the table of some runs: those with one value per run, the place of a record, metrics."""

    constants: Mapping[str, pyarrow.Array]  # by name of the column the runs' values
    rows: Mapping[str, int]  # by id the place of a run in these
    metrics: Sequence[str]

    @classmethod
    def of(cls, runs: Sequence[Run], metrics: Iterable[str]) -> Layout:
        """The columns of these runs: of the configuration the model, data, normalizer, and all keys that differ."""
        settings = [*map(_in_columns, configuration.flats([run.config for run in runs]))]
        labels = [configuration.labels_of(run) for run in runs]
        keys = list(dict.fromkeys([*ALWAYS, *configuration.differing(settings)]))
        names = (*LABELS, *PLACES)
        axes = sorted({key for run in runs for key in run.axes} - {*keys})
        constants = {
            **{key: _column([label[key] for label in labels]) for key in LABELS},
            **{key: _column([values.get(key) for values in settings]) for key in keys},
            **{f"axis {key}" if key in names else key: _column([run.axes.get(key) for run in runs]) for key in axes},
        }
        return cls(constants, {run.id: row for row, run in enumerate(runs)}, sorted(metrics))

    @property
    def schema(self) -> pyarrow.Schema:
        import pyarrow

        constants = [(name, values.type) for name, values in self.constants.items()]
        records = [(f"metric {key}" if key in self.constants else key, kind) for key, kind in self._of_records.items()]
        return pyarrow.schema(constants + records)

    @property
    def _of_records(self) -> dict[str, Any]:
        return {**PLACES, **dict.fromkeys(self.metrics, "float64")}

    def table(self, runs: Sequence[Run]) -> pyarrow.Table:
        """A row per record; null where the record lacks a value."""
        import numpy as np
        import pyarrow

        schema = pyarrow.schema(list(self._of_records.items()))
        curves = [run.records for run in runs]
        blocks = [_table(block, schema) for curve in curves for block in curve.blocks]
        lengths = [*map(len, curves)]
        starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
        # of each record its place where all blocks are put one after the other
        places = [np.argsort(np.argsort(curve.order, kind="stable")) for curve in curves]
        order = pyarrow.array(starts + np.concatenate(places))
        records = pyarrow.concat_tables([schema.empty_table(), *blocks]).take(order)
        rows = pyarrow.array(np.repeat([self.rows[run.id] for run in runs], lengths))
        constants = [values.take(rows) for values in self.constants.values()]
        return pyarrow.Table.from_arrays([*constants, *records.columns], schema=self.schema)


def _column(values: Sequence[Any]) -> pyarrow.Array:
    """Values of one type; of several, as an axis that holds numbers in one experiment and words in another, as text."""
    import pyarrow

    kinds = {type(value) for value in values if value is not None}
    if len(kinds) > 1 and not kinds <= {int, float}:
        values = [None if value is None else str(value) for value in values]
    return pyarrow.array(values, "float64" if kinds == {int, float} else None)


def _table(block: Block, schema: pyarrow.Schema) -> pyarrow.Table:
    """The records of a block, their variant as text; numpy reads the log's "NaN", "Infinity", "-Infinity"."""
    import numpy as np
    import pyarrow

    constants = {"split": block.split, "mode": block.mode, "variant": text(block.variant) or None}
    columns = [
        # Arrow's name of a number's type is one of numpy's too; pyarrow 16 imports pandas for to_pandas_dtype
        pyarrow.array(np.asarray(block.columns[field.name], str(field.type)))
        if field.name in block.columns
        else pyarrow.repeat(pyarrow.scalar(constants.get(field.name), field.type), len(block))
        for field in schema
    ]
    return pyarrow.Table.from_arrays(columns, schema=schema)


def settings(run: Run) -> dict[str, Any]:
    """The configuration of a run by key, with values that fit into a column: a list as the command line takes it."""
    return _in_columns(configuration.flat(run.config))


def _in_columns(flat: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: value if value is None or isinstance(value, str | int | float) else configuration.text(value)
        for key, value in flat.items()
    }


def metrics_of(runs: Iterable[Run]) -> set[str]:
    return {key for run in runs for block in run.records.blocks for key in block.columns} - {*PLACES}


def frame(runs: Sequence[Run]) -> Any:
    """A row per record: labels, configuration, axes, place in the run, metrics."""
    return Layout.of(runs, metrics_of(runs)).table(runs).to_pandas()


def write_csv(runs: Sequence[Run], path: Path) -> None:
    """Numbers in their shortest round-trip form, `nan` and `inf` as such, empty where a value is missing."""
    from pyarrow.csv import CSVWriter, WriteOptions

    def writer(file: BinaryIO, schema: pyarrow.Schema) -> CSVWriter:
        header = io.StringIO()
        csv.writer(header, lineterminator="\n").writerow(schema.names)
        file.write(header.getvalue().encode())
        return CSVWriter(file, schema, write_options=WriteOptions(include_header=False, quoting_style="needed"))

    _write(runs, path, writer)


def write_parquet(runs: Sequence[Run], path: Path) -> None:
    """The same columns with types; NaN is a value, a missing one is null."""
    from pyarrow.parquet import ParquetWriter

    _write(runs, path, ParquetWriter)


def _write(runs: Sequence[Run], path: Path, writer: Callable[[BinaryIO, Any], Any]) -> None:
    layout = Layout.of(runs, metrics_of(runs))
    files.make_folder(path.parent)
    with files.alone(path.parent), files.atomic(path) as file, writer(file, layout.schema) as table:
        for first in range(0, len(runs), BATCH):  # a table takes ten times the memory of its curves
            table.write_table(layout.table(runs[first : first + BATCH]))
