"""The page of a battery: one normalizer against others. The command gathers its values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import normbench
from normbench.battery import answer
from normbench.battery.answer import Comparison, Outcome
from normbench.compare.metrics import format_metric
from normbench.draw import captions
from normbench.draw.panels import Look, Quantity, panels
from normbench.draw.style import colours_of, on_dark
from normbench.draw.tables import final_entry, format_estimate, grid
from normbench.web import figures, forest, site

CHIPS = {answer.BETTER: "good", answer.WORSE: "bad", answer.UNDECIDED: "open", answer.NOT_YET: "none"}


@dataclass(frozen=True)
class BatteryPage:
    """The content of the page."""

    name: str
    title: str
    source: str
    file: str
    derived: str  # the YAML, where it was derived from the module's behaviour
    measured: Mapping[str, str]  # facts that its YAML does not declare, with their numbers
    fidelity: str
    command: str
    promises: Sequence[tuple[str, int]]  # promises that hold, and on how many layouts
    table1: tuple[Sequence[str], Sequence[Sequence[str]]]
    outcomes: Sequence[Outcome]
    notes: Sequence[str]


def write(battery: BatteryPage, target: Path) -> Path:
    """The page below `target`, which is replaced as a whole."""
    names = dict.fromkeys([battery.name, *(name for o in battery.outcomes for name in o.trial.specs)])
    colours = colours_of(names)
    looks = {name: Look(name, colours[name]) for name in names}

    def fill(folder: Path) -> None:
        template = site.environment().get_template("battery_page.html")
        text = template.render(
            battery=battery,
            version=normbench.__version__,
            headlines=answer.headlines(battery.outcomes),
            opponents=opponents(battery.outcomes),
            arms=[(name, look, on_dark(look.colour)) for name, look in looks.items()],
            sections=[_section(outcome, looks) for outcome in battery.outcomes],
        )
        (folder / "index.html").write_text(text, encoding="utf-8")

    site.put(target, fill)
    return target / "index.html"


def opponents(outcomes: Sequence[Outcome]) -> list[str]:
    return [*answer.counts(outcomes)]


def format_quantity(outcome: Outcome) -> str:
    """`test error, lower is better`."""
    for c in outcome.chief[:1]:
        return f"{c.quantity}, {'higher' if c.difference.rising else 'lower'} is better" if c.quantity else ""
    return ""


def format_effect(c: Comparison) -> str:
    """`-1.2 [-2.0, -0.4] points`, of losses a ratio `0.93 [0.90, 0.97] times`; "" without a decision or doubt."""
    if not c.has_number or c.difference.mean is None or c.difference.interval is None:
        return ""
    numbers = (c.difference.mean, *c.difference.interval)
    log = c.unit == "log ratio"
    mean, low, high = map(math.exp, numbers) if log else numbers
    unit = " times" if log else "" if c.unit == "difference" else f" {c.unit}"
    return f"{format_estimate(mean, (low, high))}{unit}"


def _section(outcome: Outcome, looks: Mapping[str, Look]) -> dict[str, Any]:
    """One experiment: its row of the table, and its details."""
    runs = [run for own in outcome.runs.values() for run in own]
    asked = answer.quantities(runs)
    axes = [Quantity(format_metric(split, m.name), split, "eval", m.name, log=m.loss) for split, m in asked]
    drawings = panels(runs, looks, {outcome.trial.where: {}}, axes) if runs else []
    entries = [
        final_entry(own, "", norm, format_metric(split, m.name), (split, "eval", m.name), m.factor, m.unit, log=m.loss)
        for norm, own in outcome.runs.items()
        for split, m in asked
    ]
    return {
        "outcome": outcome,
        "quantity": format_quantity(outcome),
        "cost": outcome.cost,
        "cells": {c.against: (CHIPS[c.word], c, format_effect(c)) for c in outcome.chief},
        "panels": [figures.drawing(panel, captions.of_panel(panel)) | {"title": ""} for panel in drawings],
        "table": grid(entries, "") if entries else None,
        "effects": forest.plots((c, _effect_of(c)) for c in outcome.comparisons if c.has_number),
    }


def _effect_of(c: Comparison) -> forest.Effect:
    better = "higher" if c.difference.rising else "lower"
    return forest.Effect(c.difference.mean, c.unit, better, c.difference.interval)
