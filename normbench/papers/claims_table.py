"""Claims as a table for a paper: LaTeX (booktabs), Markdown, or CSV with plain numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from normbench.draw.tables import csv_text
from normbench.draw.typeset import Form, table
from normbench.papers import describe
from normbench.papers.decide import Verdict
from normbench.papers.rules_file import ALPHA

HEADING = f"the comparison that decides each claim, with its {100 * (1 - ALPHA):g} % interval over seeds"
TITLES = ("claim", "sentence", "n", "effect", "interval", "word", "basis", "controls")
LEFT = {**dict.fromkeys(TITLES, "l"), "sentence": r"p{0.33\linewidth}", "n": "r"}  # of LaTeX
NUMBERS = ("comparison", "n", "effect", "low", "high", "level", "unit")  # of CSV


def claims_table(title: str, claims: Sequence[tuple[str, Verdict]], form: Form) -> str:
    """A row for each claim, by its name.

    >>> claims_table("", [], "csv").split(",")[:3]
    ['claim', 'sentence', 'comparison']
    """
    if form == "csv":
        header = ("claim", "sentence", *NUMBERS, "word", "reason", "basis", "controls")
        rows = [[name, c.statement, *_numbers(c), c.word, c.reason, c.basis, c.robustness] for name, c in claims]
        return csv_text([header, *rows])
    texts = [[name, c.statement, *describe.in_columns(c), _word(c), c.basis, c.robustness] for name, c in claims]
    columns = {column: [row[place] for row in texts] for place, column in enumerate(TITLES)}
    return table(title, HEADING, columns, LEFT, form)


def _word(claim: Verdict) -> str:
    return f"{claim.word} ({claim.reason})" if claim.reason else claim.word


def _numbers(claim: Verdict) -> list[Any]:
    """Of a ratio the numbers are the ratio's; of a difference those of the first side less the second."""
    part = describe.deciding(claim)
    if part is None or not part.n or claim.undecidable:
        return [""] * len(NUMBERS)
    ratio = describe.is_ratio(part)
    effects = (part.effect, *(part.interval or (None, None)))
    plain = (math.exp(end) if ratio and end is not None else end for end in effects)
    return [part.id, part.n, *plain, part.interval and part.level, "times" if ratio else part.unit]
