"""The page of a battery: one normalizer against others. It renders the scorecard, and draws the runs behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import normbench
from normbench.battery import answer
from normbench.battery.answer import Comparison, Outcome
from normbench.compare.metrics import format_metric
from normbench.draw import captions
from normbench.draw.panels import Look, Quantity, panels
from normbench.draw.style import distinct_colours, on_dark
from normbench.draw.tables import final_entry, grid
from normbench.web import figures, forest, site

CHIPS = {answer.BETTER: "good", answer.WORSE: "bad", answer.UNDECIDED: "open", answer.NOT_YET: "none"}


def write(card: Mapping[str, Any], outcomes: Sequence[Outcome], target: Path) -> Path:
    """The page below `target`, which is replaced as a whole; `outcomes`: those of the card's trials, in their order."""
    names = dict.fromkeys([card["norm"], *(name for o in outcomes for name in o.trial.specs)])
    colours = distinct_colours(names)
    looks = {name: Look(name, colours[name]) for name in names}
    sections = [
        {"trial": trial, **_drawn(outcome, looks)}
        for trial, outcome in zip(card["trials"], outcomes, strict=True)
        if any(outcome.runs.values()) or outcome.trial.refused
    ]

    def fill(folder: Path) -> None:
        text = (
            site.environment()
            .get_template("battery_page.html")
            .render(
                card=card,
                chips=CHIPS,
                version=normbench.__version__,
                arms=[(name, style, on_dark(style.colour)) for name, style in looks.items()],
                sections=sections,
            )
        )
        (folder / "index.html").write_text(text, encoding="utf-8")

    site.put(target, fill)
    return target / "index.html"


def _drawn(outcome: Outcome, looks: Mapping[str, Look]) -> dict[str, Any]:
    """The figures and the table of one experiment."""
    runs = [run for of_norm in outcome.runs.values() for run in of_norm]
    quantities = answer.quantities(runs)
    axes = [Quantity(format_metric(split, m.name), split, "eval", m.name, log=m.loss) for split, m in quantities]
    drawings = panels(runs, looks, {outcome.trial.where: {}}, axes) if runs else []
    entries = [
        final_entry(
            of_norm, "", norm, format_metric(split, m.name), (split, "eval", m.name), m.factor, m.unit, log=m.loss
        )
        for norm, of_norm in outcome.runs.items()
        for split, m in quantities
    ]
    return {
        "panels": [figures.drawing(panel, captions.of_panel(panel)) | {"title": ""} for panel in drawings],
        "table": grid(entries, "") if entries else None,
        "effects": forest.plots((c, _effect_of(c)) for c in outcome.comparisons if c.has_number),
    }


def _effect_of(c: Comparison) -> forest.Effect:
    better = "higher" if c.difference.rising else "lower"
    return forest.Effect(c.difference.mean, c.unit or "difference", better, c.difference.interval)
