"""Tables of texts for a paper: LaTeX (booktabs) or Markdown."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Literal

from normbench.draw import tables
from normbench.draw.text import visible

Form = Literal["latex", "markdown", "csv"]
GREEK = {letter: unicodedata.name(letter).split()[-1].lower() for letter in "αβγδεηθκμνξπρστφχψω"} | {"λ": "lambda"}
MATH = {  # of LaTeX: what text there has no sign for
    "\N{MINUS SIGN}": "-", "<": "<", ">": ">", "≤": r"\leq", "≥": r"\geq", "≈": r"\approx", "∼": r"\sim",
    "×": r"\times", "±": r"\pm", "√": r"\sqrt{\,}", "∂": r"\partial", "∞": r"\infty", "‖": r"\|",
    "→": r"\rightarrow", "←": r"\leftarrow", "Δ": r"\Delta", "Σ": r"\Sigma",
    **{letter: f"\\{name}" for letter, name in GREEK.items()},
}  # fmt: skip
SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    **{character: f"${sign}$" for character, sign in MATH.items()},
}  # fmt: skip


def in_columns(columns: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """A header and rows of the columns in which something stands; without rows, of all."""
    kept = {title: cells for title, cells in columns.items() if any(cells)} or columns
    return [[*kept], *map(list, zip(*kept.values(), strict=True))]


def table(title: str, heading: str, columns: Mapping[str, Sequence[str]], left: Mapping[str, str], form: Form) -> str:
    """Markdown, or a tabular for \\usepackage{booktabs}, with what it is as a comment above it.

    left: the columns of the tabular whose cells do not stand on the right.
    """
    rows = in_columns(columns)
    if form == "markdown":
        return f"**{tables.escape(title)}**\n\n{tables.escape(heading)}\n\n{tables.lines(rows)}"
    header, *others = map(_latex_row, rows)
    aligned = "".join(left.get(column, "r") for column in rows[0])
    lines = [f"% {visible(title)}", f"% {visible(heading)}", rf"\begin{{tabular}}{{{aligned}}}", r"\toprule", header]
    return "\n".join([*lines, r"\midrule", *others, r"\bottomrule", r"\end{tabular}", ""])


def _latex_row(row: Sequence[str]) -> str:
    line = " & ".join(map(_escape, row)) + r" \\"
    return f"{{}}{line}" if line.startswith(("[", "*")) else line  # else an option of the \\ before it


def _escape(cell: str) -> str:
    return "".join(SPECIAL.get(character, character) for character in visible(cell)).replace("--", "-{}-")
