"""The table of a comparison, and its curves, as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from normbench.compare import configuration
from normbench.draw.text import visible
from normbench.stats.series import series
from normbench.web.board import Board


def csv_table(answer: Mapping[str, Any] | None) -> bytes:
    """The rows of an answer, as its `as_json` has them, a line per cell."""
    rows = [
        {"group": group["place"], **dict(_flat("", {key: item for key, item in row.items() if key != "seeds"}))}
        for group in (answer or {}).get("groups", ())
        for row in group["rows"]
    ]
    return _written(rows)


def csv_curves(board: Board, panels: str, off: Collection[str], best: bool) -> bytes:
    """A line per evaluation of each seed, of the question's metric and of the panels, in displayed units; not thinned.

    off: arms, values of facets, and cells, not on show. best: whether of each arm only its best learning rate is.
    """
    hidden = {
        cell["key"]
        for cell in board.json()["cells"]
        if {cell["key"], cell["arm"], *cell["place"]}.intersection(off) or (best and cell["other_rate"])
    }
    rows = []
    for shown in (board, *board.panels(panels).values()):
        (split, _, name), metric = shown.question.where, shown.question.metric
        for cell in (cell for cell in shown.cells if cell.key not in hidden):
            here = {"split": split, "metric": name, "unit": metric.unit, "cell": shown.styles[cell.key].name}
            here |= {key: configuration.text(cell.values.get(key, "")) for key in board.task.differing}
            for run in (run for run in cell.runs if run.records and shown.stretch(cell)):
                for x, y in series(run, *shown.question.where, x=shown.logged_clock):
                    at = {"seed": run.seed, "run": run.id, shown.clock: shown.stretch(cell) * x}
                    rows.append({**here, **at, "value": float(f"{metric.factor * y:.12g}")})
    return _written(rows)


def _written(rows: Iterable[Mapping[str, Any]]) -> bytes:
    """A column for every key; text that looks like a formula is quoted."""
    rows = list(rows)
    text = io.StringIO()
    columns = dict.fromkeys(key for row in rows for key in row)
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(map(_field, columns))
    writer.writerows([_field(row.get(column)) for column in columns] for row in rows)
    return text.getvalue().encode()


def _flat(name: str, node: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(node, list | tuple):
        node = dict(zip(("low", "high"), node, strict=True))  # an interval
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield from _flat(f"{name}.{key}" if name else str(key), value)
    else:
        yield name, node


def _field(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    text = visible(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
