"""The page of a battery: where one normalizer stands. From plain values; the command gathers them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import normbench
from normbench.battery.trials import Effect, Trial, metric, quantities
from normbench.compare.metrics import format_metric
from normbench.draw.panels import Look, Quantity, panels
from normbench.draw.style import colours_of, on_dark
from normbench.draw.tables import Entry, final_entry, grid
from normbench.runs.record import RunRecord
from normbench.web import figures, forest, site


@dataclass(frozen=True)
class Outcome:
    """One trial with its runs by normalizer, effects, milliseconds per step, and what did not come to an end."""

    trial: Trial
    runs: Mapping[str, Sequence[RunRecord]]
    effects: Sequence[Effect]
    costs: Mapping[str, Mapping[str, float]]
    failed: Mapping[str, str]


@dataclass(frozen=True)
class Standing:
    """All that the page says."""

    name: str
    title: str
    source: str
    file: str
    derived: str  # the YAML, where it was made from what the file does
    fidelity: str
    command: str
    promises: Sequence[tuple[str, int]]  # what it keeps to, and on how many layouts
    table1: tuple[Sequence[str], Sequence[Sequence[str]]]
    outcomes: Sequence[Outcome]
    notes: Sequence[str]


def write(standing: Standing, target: Path) -> Path:
    """The page below `target`, which is replaced as a whole."""
    looks = _looks(standing)

    def fill(folder: Path) -> None:
        text = (
            site.environment()
            .get_template("standing.html")
            .render(
                standing=standing,
                version=normbench.__version__,
                arms=[(name, look, on_dark(look.colour)) for name, look in looks.items()],
                sections=[_section(outcome, looks) for outcome in standing.outcomes],
            )
        )
        (folder / "index.html").write_text(text, encoding="utf-8")

    site.put(target, fill)
    return target / "index.html"


def _looks(standing: Standing) -> dict[str, Look]:
    names = dict.fromkeys([standing.name, *(name for o in standing.outcomes for name in o.trial.specs)])
    colours = colours_of(names)
    return {name: Look(name, colours[name]) for name in names}


def _section(outcome: Outcome, looks: Mapping[str, Look]) -> dict[str, Any]:
    runs = [run for own in outcome.runs.values() for run in own]
    shown = quantities(runs)
    drawn = panels(runs, looks, {outcome.trial.where: {}}, [_quantity(where, runs) for where in shown])
    found = entries(outcome.runs, shown)
    parts = [_part(effect) for effect in outcome.effects]
    scale = forest.limits(parts)
    return {
        "outcome": outcome,
        "panels": [(p.quantity.name, p.count(), figures.figure(p) if p.lines else None) for p in drawn],
        "table": grid(found, "") if found else None,
        "effects": [
            ((effect, part), forest.mark(part, scale)) for effect, part in zip(outcome.effects, parts, strict=True)
        ],
    }


def entries(runs: Mapping[str, Sequence[RunRecord]], asked: Sequence[tuple[str, str, str]]) -> list[Entry]:
    """The last values of each normalizer's runs, shares in per cent."""
    every = [run for own in runs.values() for run in own]
    known = {where: metric(every, where) for where in asked}
    return [
        final_entry(own, "", norm, format_metric(where[0], where[2]), where, m.factor, m.unit, log=m.loss)
        for norm, own in runs.items()
        for where, m in known.items()
    ]


def _quantity(where: tuple[str, str, str], runs: Sequence[RunRecord]) -> Quantity:
    return Quantity(format_metric(where[0], where[2]), *where, log=metric(runs, where).loss)


def _part(effect: Effect) -> dict[str, Any]:
    """In the form that the forest plot reads; nothing is claimed."""
    estimate = effect.estimate
    return {
        "kind": "direction", "effect": estimate.mean, "unit": effect.unit, "expect": None, "paper": None,
        "interval": list(estimate.interval) if estimate.interval else None, "within": None, "prediction": None,
        "tost": None, "sign_test": None,
    }  # fmt: skip
