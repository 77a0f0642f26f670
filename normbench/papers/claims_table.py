"""Claims as a table for a paper: LaTeX (booktabs), Markdown, or CSV with plain numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from normbench.draw import typeset
from normbench.draw.typeset import Form
from normbench.papers import describe
from normbench.papers.decide import Verdict
from normbench.papers.rules_file import ALPHA

HEADING = f"the comparison that decides each claim, with its {100 * (1 - ALPHA):g} % interval over seeds"
TITLES = ("claim", "sentence", "n", "effect", "interval", "word", "basis", "controls")
ALIGNED = dict(zip(TITLES, ["l", r"p{0.33\linewidth}", "r", *"lllll"], strict=True))  # of LaTeX
NUMBERS = ("comparison", "n", "effect", "low", "high", "level", "unit")  # of CSV


def claims_table(title: str, claims: Sequence[tuple[str, Verdict]], form: Form) -> str:
    """A row for each claim, by its name.

    >>> claims_table("", [], "csv").split(",")[:3]
    ['claim', 'sentence', 'comparison']
    """
    if form == "csv":
        header = ["claim", "sentence", *NUMBERS, "word", "reason", "basis", "controls"]
        return typeset.as_csv([header, *(_plain(name, claim) for name, claim in claims)])
    texts = [_texts(name, claim) for name, claim in claims]
    columns = dict(zip(TITLES, zip(*texts, strict=True), strict=True)) if texts else {}
    rows = typeset.in_columns(columns) if columns else [TITLES]
    if form == "markdown":
        return typeset.markdown(title, HEADING, rows)
    return typeset.latex(title, HEADING, rows, "".join(ALIGNED[column] for column in rows[0]))


def _texts(name: str, claim: Verdict) -> list[str]:
    word = f"{claim.word} ({claim.reason})" if claim.reason else claim.word
    return [name, claim.statement, *describe.in_columns(claim), word, claim.basis, claim.robustness]


def _plain(name: str, claim: Verdict) -> list[Any]:
    """Of a ratio the numbers are the ratio's; of a difference those of the first side less the second."""
    part = describe.deciding(claim)
    numbers: list[Any] = [""] * len(NUMBERS)
    if part and part.n and not claim.undecidable:
        low, high = part.interval or (None, None)
        ratio = describe.is_ratio(part)
        effects = [math.exp(end) if ratio and end is not None else end for end in (part.effect, low, high)]
        numbers = [part.id, part.n, *effects, part.interval and part.level, "times" if ratio else part.unit]
    return [name, claim.statement, *numbers, claim.word, claim.reason, claim.basis, claim.robustness]
