"""A comparison as a table for a paper: LaTeX (booktabs), Markdown, or CSV with plain numbers."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Literal

from normbench.compare import describe
from normbench.compare.answer import Comparison, Group, Row
from normbench.compare.configuration import text
from normbench.compare.question import TUNED
from normbench.draw import tables
from normbench.draw.text import visible
from normbench.papers.rules_file import ALPHA

Form = Literal["latex", "markdown", "csv"]
NUMBERS = ("arm", "learning_rate", "n", "diverged", "mean", "low", "high")
NONE = (None, None)
OF_DIFFERENCE = ("difference", "difference_low", "difference_high", "p_holm", "word")
SPECIAL = {  # of LaTeX
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\N{MINUS SIGN}": "$-$", "<": "$<$", ">": "$>$",
}  # fmt: skip


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
            blocks.append(of_rows(title, describe.heading(c), _rows(group, c), form))
    return "\n".join(blocks)


def of_rows(title: str, heading: str, rows: Sequence[Sequence[str]], form: str) -> str:
    """A table of a header and rows, in LaTeX or Markdown."""
    return (_latex if form == "latex" else _markdown)(title, heading, rows)


def _rows(group: Group, c: Comparison) -> list[list[str]]:
    """A header and a row for each arm, as people read them; columns in which nothing stands are left out."""
    baseline = next((d.second for d in group.against), "")
    unit = f", {c.question.metric.unit}" if c.question.metric.unit else ""
    interval = f"[{100 * (1 - ALPHA):g} % interval]"
    rows = list(zip(group.rows, describe.table(group.rows, c), strict=True))
    columns = {
        "arm": [row.arm for row, _ in rows],
        "learning rate": [_rate(row) for row, _ in rows],
        "n": [str(row.at.n) for row, _ in rows],
        "diverged": [str(row.diverged or "") for row, _ in rows],
        f"{c.question.split} {c.question.metric.title}{unit} {interval}": [texts.at for _, texts in rows],
        f"difference to {baseline} {interval}": [texts.difference for _, texts in rows],
        "p (Holm)": [texts.holm for _, texts in rows],
        "word": [row.difference.word if row.difference else "" for row, _ in rows],
    }
    shown = {title: cells for title, cells in columns.items() if any(cells)}
    return [[*shown], *map(list, zip(*shown.values(), strict=True))]


def _rate(row: Row) -> str:
    rates = {text(run.config.get("optim", {}).get("lr", "")) for run in row.cell.runs}
    return text(row.cell.values.get(TUNED, rates.pop() if len(rates) == 1 else ""))


def _markdown(title: str, heading: str, rows: Sequence[Sequence[str]]) -> str:
    return f"**{tables.escape(title)}**\n\n{tables.escape(heading)}\n\n{tables.lines(rows)}"


def _latex(title: str, heading: str, rows: Sequence[Sequence[str]]) -> str:
    """A tabular for \\usepackage{booktabs}; what it is stands above it as a comment."""
    header, *arms = (" & ".join(map(_escape, row)) + r" \\" for row in rows)
    aligned = "l".ljust(len(rows[0]), "r")[:-1] + "l"  # numbers to the right, arm and word to the left
    lines = [f"% {visible(title)}", f"% {visible(heading)}", rf"\begin{{tabular}}{{{aligned}}}", r"\toprule", header]
    return "\n".join([*lines, r"\midrule", *arms, r"\bottomrule", r"\end{tabular}", ""])


def _escape(cell: str) -> str:
    return "".join(SPECIAL.get(character, character) for character in visible(cell))


def _csv(comparisons: Sequence[Comparison]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["task", "setting", *NUMBERS, "unit", "against", *OF_DIFFERENCE])
    for c in comparisons:
        for group in c.groups:
            setting = f"{group.place} tuned".strip() if group.tuned else group.place
            for row in group.rows:
                means = [
                    row.arm,
                    _rate(row),
                    row.at.n,
                    row.diverged,
                    *_numbers(row.at.mean, *(row.at.interval or NONE)),
                ]
                d = row.difference
                against = [d.second, *_numbers(d.mean, *(d.interval or NONE), d.holm), d.word] if d else [""] * 6
                writer.writerow([c.task.title, setting, *means, c.question.metric.unit, *against])
    return out.getvalue()


def _numbers(*values: float | None) -> list[str]:
    return ["" if value is None else f"{value:.6g}" for value in values]
