"""Verdicts in the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from normbench.commands.terminal import Table, cell
from normbench.papers.decide import Verdict

COLOURS = {"good": "green", "half-good": "green", "bad": "red", "half-bad": "red", "weak": "yellow"}


def show_verdicts(claims: Sequence[Verdict], answers: Sequence[str], console: Console) -> None:
    """Print a row per claim, with its answer; nothing for an artifact without claims."""
    from normbench.papers import describe

    if not claims:
        return
    table = Table("claim", "statement", "verdict", "answer", whole=("claim",), below=("answer",))
    for claim, answer in zip(claims, answers, strict=True):
        colour = COLOURS.get(describe.news(claim.verdict), "")
        verdict = f"[{colour}]{claim.verdict}[/]" if colour else claim.verdict
        table.add_row(cell(claim.id), cell(claim.statement), verdict, cell(answer))
    console.print(table)
    console.print()
