"""Every configuration in which the same runs were evaluated, as a map beside the papers' own order."""

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
    """Every configuration of the evaluation's statistics against data and batch size, beside the paper's numbers."""
    own = [cell for cell in task.cells if _variants(cell)]
    if not own:
        return None
    ways = _variants(own[0])
    cells = [*own]
    for other in others:
        if other.key != task.key and other.model == task.model:
            alike = [cell for cell in other.cells if _variants(cell) and cell.norm == own[0].norm]
            loaded = load([run.id for cell in alike for run in cell.runs]) if alike else {}
            cells += [cell.with_runs(loaded) for cell in alike]
    keys = configuration.differing([cell.values for cell in cells])
    among = configuration.numbers(cell.values for cell in cells)
    sign = -1 if question.metric.rising else 1
    shown: dict[str, list[float]] = {}
    for cell in cells:
        name = configuration.label(cell.values, keys, among) or question.arm(own[0])
        means = [sign * mean for mean in _means(cell, question, ways) if mean is not None]
        if len(means) == len(ways):
            shown.setdefault(name, means)
        for told, numbers in paper_references.numbers(cell, ways):
            shown.setdefault(told, [numbers[way] for way in ways])
    names = list(shown)[:MOST_COLUMNS]
    if not names:
        return None
    values = [list(row) for row in zip(*(shown[name] for name in names), strict=True)]
    what = f"Place within a column by {question.split} {question.metric.title}, 1 and blue the best."
    return figures.heat(ways, names, values, what)


def _variants(cell: Cell) -> list[str]:
    """The configurations in which the runs of a cell were evaluated, in their order; as asked for where none is read.

    None where they were asked to be evaluated in fewer than two ways.
    """
    asked = [str(way) for way in cell.runs[0].config.get("eval", {}).get("variants") or ()]
    if len(asked) < 2:
        return []
    read = next((run for run in cell.done if run.records), None)
    if read is None:
        return asked
    ways = [str(variant[CONFIGURATION]) for variant in variants(read) if set(variant) == {CONFIGURATION}]
    return ways if len(ways) > 1 else []


def _means(cell: Cell, question: Question, ways: Sequence[str]) -> list[float | None]:
    """The mean over seeds by configuration; of the runs that are done, None where one lacks it."""
    known = [[value(run, question, variant=f"{CONFIGURATION}={way}") for way in ways] for run in cell.done]
    return [mean_of_all(values) for values in zip(*known, strict=True)]
