"""All evaluation variants of the same runs as a map, with the papers' numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from normbench.compare import configuration, paper_references
from normbench.compare.answer import value
from normbench.compare.groups import Cell, Task
from normbench.compare.question import Question
from normbench.draw.tables import mean_of_all
from normbench.runs.record import RunRecord
from normbench.stats.series import variants
from normbench.web import figures_compare as figures

Load = Callable[[Sequence[str]], Mapping[str, RunRecord]]
CONFIGURATION = "configuration"  # the option whose values make a map of variants
MOST_COLUMNS = 10


def configurations(task: Task, question: Question, others: Sequence[Task], load: Load) -> figures.Figure | None:
    """All variants of the evaluation's statistics by data and batch size, with the papers' numbers."""
    own = [cell for cell in task.cells if _variants(cell)]
    if not own:
        return None
    variants = _variants(own[0])
    cells = [*own]
    for other in others:
        if other.key != task.key and other.model == task.model:
            alike = [cell for cell in other.cells if _variants(cell) and cell.norm == own[0].norm]
            loaded = load([run.id for cell in alike for run in cell.runs]) if alike else {}
            cells += [cell.with_runs(loaded) for cell in alike]
    keys = configuration.differing([cell.values for cell in cells])
    among = configuration.numbers(cell.values for cell in cells)
    sign = -1 if question.metric.rising else 1
    columns: dict[str, list[float]] = {}
    for cell in cells:
        name = configuration.label(cell.values, keys, among) or question.arm(own[0])
        means = [sign * mean for mean in _means(cell, question, variants) if mean is not None]
        if len(means) == len(variants):
            columns.setdefault(name, means)
        for name, numbers in paper_references.numbers(cell, variants):
            columns.setdefault(name, [numbers[variant] for variant in variants])
    names = list(columns)[:MOST_COLUMNS]
    if not names:
        return None
    values = [list(row) for row in zip(*(columns[name] for name in names), strict=True)]
    what = f"Place within a column by {question.split} {question.metric.title}, 1 and blue the best."
    return figures.heat(variants, names, values, what)


def _variants(cell: Cell) -> list[str]:
    """The variants in which the runs of a cell were evaluated, or are to be where no run has records.

    Empty for fewer than two variants.
    """
    asked = [str(variant) for variant in cell.runs[0].config.get("eval", {}).get("variants") or ()]
    if len(asked) < 2:
        return []
    read = next((run for run in cell.done if run.records), None)
    if read is None:
        return asked
    names = [str(variant[CONFIGURATION]) for variant in variants(read) if set(variant) == {CONFIGURATION}]
    return names if len(names) > 1 else []


def _means(cell: Cell, question: Question, names: Sequence[str]) -> list[float | None]:
    """The mean over seeds by configuration; of the runs that are done, None where one lacks it."""
    values = [[value(run, question, variant=f"{CONFIGURATION}={variant}") for variant in names] for run in cell.done]
    return [mean_of_all(values) for values in zip(*values, strict=True)]
