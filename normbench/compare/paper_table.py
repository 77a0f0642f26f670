"""A comparison as a table for a paper: LaTeX (booktabs), Markdown, or CSV with plain numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from normbench.compare import describe
from normbench.compare.answer import Comparison, Group, Row
from normbench.compare.configuration import text
from normbench.compare.question import TUNED
from normbench.draw.tables import csv_text
from normbench.draw.typeset import Form, table
from normbench.papers.rules_file import ALPHA

NUMBERS = ("arm", "learning_rate", "n", "diverged", "mean", "low", "high")
NONE = (None, None)
OF_DIFFERENCE = ("difference", "difference_low", "difference_high", "p_holm", "word")


def paper_table(comparisons: Sequence[Comparison], form: Form) -> str:
    """All groups of these comparisons: one CSV, or a table each with its title.

    Columns: arm, learning rate, seeds, mean and 95 % interval, difference to the baseline and its interval, p after
    Holm's adjustment over all pairs of the group, and the word: ahead, behind or undecided.

    >>> paper_table([], "csv").split(",")[:3]
    ['task', 'setting', 'arm']
    """
    if form == "csv":
        return _csv(comparisons)
    blocks = []
    for c in comparisons:
        for group in c.groups:
            setting = "each at its own best learning rate" if group.tuned else ""
            title = ": ".join(filter(None, [c.task.title, " · ".join(filter(None, [group.place, setting]))]))
            blocks.append(table(title, describe.heading(c), _columns(group, c), {"arm": "l", "word": "l"}, form))
    return "\n".join(blocks)


def _columns(group: Group, c: Comparison) -> dict[str, list[str]]:
    """What stands in the row of each arm, as people read it."""
    baseline = next((d.second for d in group.against), "")
    unit = f", {c.question.metric.unit}" if c.question.metric.unit else ""
    interval = f"[{100 * (1 - ALPHA):g} % interval]"
    rows = list(zip(group.rows, describe.table(group.rows, c), strict=True))
    return {
        "arm": [row.arm for row, _ in rows],
        "learning rate": [_rate(row) for row, _ in rows],
        "n": [str(row.at.n) for row, _ in rows],
        "diverged": [str(row.diverged or "") for row, _ in rows],
        f"{c.question.split} {c.question.metric.title}{unit} {interval}": [texts.at for _, texts in rows],
        f"difference to {baseline} {interval}": [texts.difference for _, texts in rows],
        "p (Holm)": [texts.holm for _, texts in rows],
        "word": [row.difference.word if row.difference else "" for row, _ in rows],
    }


def _rate(row: Row) -> str:
    rates = {text(run.config.get("optim", {}).get("lr", "")) for run in row.cell.runs}
    return text(row.cell.values.get(TUNED, rates.pop() if len(rates) == 1 else ""))


def _csv(comparisons: Sequence[Comparison]) -> str:
    lines: list[list[Any]] = [["task", "setting", *NUMBERS, "unit", "against", *OF_DIFFERENCE]]
    for c in comparisons:
        for group in c.groups:
            setting = f"{group.place} tuned".strip() if group.tuned else group.place
            for row in group.rows:
                at, d = row.at, row.difference
                line = [c.task.title, setting, row.arm, _rate(row), at.n, row.diverged, at.mean, *(at.interval or NONE)]
                against = [d.second, d.mean, *(d.interval or NONE), d.holm, d.word] if d else [""] * 6
                lines.append([*line, c.question.metric.unit, *against])
    return csv_text(lines)
