"""Finished runs as data frames."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from normbench.commands import places
from normbench.config.compose import RUN_GROUPS, flat
from normbench.curves.series import PARTS, best_step
from normbench.errors import NormbenchError, unknown
from normbench.export import tables
from normbench.runs.find import everything
from normbench.runs.record import PLACE, RunRecord

if TYPE_CHECKING:
    import pandas

SHORTEST = 4  # characters of an id that name a run


def load_runs(*words: str, results: str | Path | None = None, records: bool = False) -> pandas.DataFrame:
    """Finished runs below `results`, published and one's own, as a data frame: a row per run.

    >>> from normbench import load_runs
    >>> runs = load_runs("ln2016/fig6", "norm=layer,batch")         # doctest: +SKIP
    >>> runs.groupby("norm")["last test error"].mean()              # doctest: +SKIP
    >>> curves = load_runs("model=mnist_mlp", records=True)         # doctest: +SKIP

    Columns: `run` (the id), `experiment`, `arm`, `seed`, `fidelity`, `control`, `status` (done, diverged); the
    configuration, the names of what was chosen (`model`, `norm`, `data`, `optim`, ...) and every option that any of the
    runs has (`optim.lr`, `train.batch_size`), lists and maps as text; `last SPLIT METRIC` and `best SPLIT METRIC` of
    the usual evaluation, after the last update and where what the run monitors is best. What a run lacks is missing.

    Args:
        words: which runs, all where there are none. `COLUMN=VALUE` or `COLUMN=VALUE,VALUE`, one of these; an
            experiment, an arm, or the beginning of an id (4 characters) by itself, one of those that are given. A run
            fits all columns that are named.
        results: the folder; without it NORMBENCH_RESULTS, else ./results.
        records: a row per record of the runs' curves: run, labels, axes, split, mode, variant, epoch, step, metrics.

    Errors: NormbenchError for a column that no run has, for words that no run fits. A damaged run is left out with a
    warning.
    """
    import pandas

    folder = places.results(None if results is None else str(results))
    runs, notes = everything(folder)
    for note in notes:
        warnings.warn(note, stacklevel=2)
    labelled = [(run, _labels(run) | flat(run.config)) for run in runs]
    chosen = _chosen(labelled, words, folder)
    if records:
        columns, table = tables.rows([run for run, _ in chosen])
        return pandas.DataFrame(table, columns=columns)
    rows = [row | _metrics(run) for run, row in chosen]
    options = sorted({key for _, row in chosen for key in row} - {*tables.LABELS, *RUN_GROUPS})
    groups = [group for group in RUN_GROUPS if any(group in row for row in rows)]
    metrics = sorted({key for row in rows for key in row} - {*tables.LABELS, *groups, *options}, reverse=True)
    return pandas.DataFrame(rows, columns=[*tables.LABELS, *groups, *options, *metrics])


def _labels(run: RunRecord) -> dict[str, Any]:
    values = (run.id, run.experiment, run.arm, run.seed, run.fidelity, run.control, run.status)
    return dict(zip(tables.LABELS, values, strict=True))


def _metrics(run: RunRecord) -> dict[str, float]:
    """The usual evaluation after the last update, and at the best."""
    moments = {"last": run.steps, "best": best_step(run)}
    found: dict[str, float] = {}
    for record in run.records:
        if record["mode"] not in ("eval", "both") or record.get("variant") or PARTS & record.keys():
            continue
        values = {key: float(value) for key, value in record.items() if key not in PLACE}
        for name in (name for name, step in moments.items() if step and record["step"] == step):
            found |= {f"{name} {record['split']} {key}": value for key, value in values.items()}
    return found


Labelled = tuple[RunRecord, dict[str, Any]]  # a run with its labels and its configuration


def _chosen(runs: Sequence[Labelled], words: Sequence[str], results: Path) -> list[Labelled]:
    columns = {key for _, row in runs for key in row}
    wanted: dict[str, list[str]] = {}
    named = []
    for word in words:
        column, given, values = word.partition("=")
        if not given:
            named.append(word)
        elif runs and column not in columns:
            raise unknown(f"{word}: no run below {results} has {column}.", column, sorted(columns))
        else:
            wanted.setdefault(column, []).extend(values.split(","))
    for column, asked in wanted.items():
        cells = [row.get(column) for _, row in runs]
        for value in asked:
            if runs and not any(_equals(cell, value) for cell in cells):
                known = sorted({str(cell) for cell in cells})
                raise unknown(f"{column}={value}: no run below {results} has that.", value, known)
    chosen = [
        (run, row)
        for run, row in runs
        if (not named or any(_is_called(run, word) for word in named))
        and all(any(_equals(row.get(column), value) for value in values) for column, values in wanted.items())
    ]
    if not chosen:
        which = f" that fits {' '.join(words)}" if words and runs else ""
        raise NormbenchError(f"there is no finished run{which} below {results}. (normbench status)")
    return chosen


def _is_called(run: RunRecord, word: str) -> bool:
    return word in (run.experiment, run.arm) or (len(word) >= SHORTEST and run.id.startswith(word))


def _equals(cell: Any, word: str) -> bool:
    """`1e-3` is 0.001, `true` is True, `null` is nothing; else the text counts."""
    if cell is None or isinstance(cell, bool):
        return {None: "null", True: "true", False: "false"}[cell] == word
    if isinstance(cell, int | float):
        try:
            return math.isclose(float(word), cell, rel_tol=1e-12)
        except ValueError:
            return False
    return str(cell) == word
