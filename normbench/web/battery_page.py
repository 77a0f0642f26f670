"""The page of a battery: one normalizer against others. The command gathers its values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import normbench
from normbench.battery.trials import Effect, Trial, metric, quantities
from normbench.compare.metrics import format_metric
from normbench.draw import captions
from normbench.draw.panels import Look, Quantity, panels
from normbench.draw.style import colours_of, on_dark
from normbench.draw.tables import Entry, final_entry, grid
from normbench.runs.record import RunRecord
from normbench.web import figures, forest, site


@dataclass(frozen=True)
class Outcome:
    """One trial with its runs by normalizer, effects, milliseconds per step, and reasons of failed runs."""

    trial: Trial
    runs: Mapping[str, Sequence[RunRecord]]
    effects: Sequence[Effect]
    costs: Mapping[str, Mapping[str, float]]
    failed: Mapping[str, str]


@dataclass(frozen=True)
class BatteryPage:
    """The content of the page."""

    name: str
    title: str
    source: str
    file: str
    derived: str  # the YAML, where it was derived from the module's behaviour
    fidelity: str
    command: str
    promises: Sequence[tuple[str, int]]  # promises that hold, and on how many layouts
    table1: tuple[Sequence[str], Sequence[Sequence[str]]]
    outcomes: Sequence[Outcome]
    notes: Sequence[str]


def write(battery: BatteryPage, target: Path) -> Path:
    """The page below `target`, which is replaced as a whole."""
    looks = _looks(battery)

    def fill(folder: Path) -> None:
        text = (
            site.environment()
            .get_template("battery_page.html")
            .render(
                battery=battery,
                version=normbench.__version__,
                arms=[(name, look, on_dark(look.colour)) for name, look in looks.items()],
                sections=[_section(outcome, looks) for outcome in battery.outcomes],
            )
        )
        (folder / "index.html").write_text(text, encoding="utf-8")

    site.put(target, fill)
    return target / "index.html"


def _looks(battery: BatteryPage) -> dict[str, Look]:
    names = dict.fromkeys([battery.name, *(name for o in battery.outcomes for name in o.trial.specs)])
    colours = colours_of(names)
    return {name: Look(name, colours[name]) for name in names}


def _section(outcome: Outcome, looks: Mapping[str, Look]) -> dict[str, Any]:
    runs = [run for own in outcome.runs.values() for run in own]
    asked = quantities(runs)
    axes = [Quantity(format_metric(w[0], w[2]), *w, log=metric(runs, w).loss) for w in asked]
    drawings = panels(runs, looks, {outcome.trial.where: {}}, axes)
    found = entries(outcome.runs, asked)
    return {
        "outcome": outcome,
        "panels": [figures.drawing(panel, captions.of_panel(panel)) | {"title": ""} for panel in drawings],
        "table": grid(found, "") if found else None,
        "effects": forest.plots((effect, part_of(effect)) for effect in outcome.effects),
    }


def entries(runs: Mapping[str, Sequence[RunRecord]], asked: Sequence[tuple[str, str, str]]) -> list[Entry]:
    """The last values of each normalizer's runs, shares in per cent."""
    every = [run for own in runs.values() for run in own]
    metrics = {where: metric(every, where) for where in asked}
    return [
        final_entry(own, "", norm, format_metric(where[0], where[2]), where, m.factor, m.unit, log=m.loss)
        for norm, own in runs.items()
        for where, m in metrics.items()
    ]


def part_of(effect: Effect) -> dict[str, Any]:
    """An effect as the forest plot and its words read it, without a claim."""
    estimate = effect.estimate
    return {
        "kind": "direction", "effect": estimate.mean, "unit": effect.unit, "expect": None, "paper": None,
        "interval": list(estimate.interval) if estimate.interval else None, "within": None, "prediction": None,
        "tost": None, "sign_test": None, "test": "t", "level": None, "censored": 0, "diverged": 0,
        "better": "lower" if effect.unit == "log ratio" else "",
    }  # fmt: skip
