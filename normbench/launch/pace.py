"""How long runs take, before they start: by runs like them that were timed, else by what their experiment says."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from normbench.config import plan
from normbench.runs.record import RunRecord


@dataclass(frozen=True)
class Place:
    """Where runs of one pace lie: an experiment at a fidelity, and values of its axes."""

    experiment: str
    fidelity: str
    axes: Mapping[str, Any] = field(default_factory=dict)
    config_dir: Path | None = None


def seconds(runs: Iterable[tuple[Place, int]], timed: Iterable[RunRecord]) -> float | None:
    """Of runs with so many updates each, one after another; None where nothing says how long one of them takes.

    The pace is the median of timed runs of the same place, else `seconds` of a run in the experiment's fidelity.
    """
    paces: dict[tuple[str, str, str], list[float]] = {}
    for run in timed:
        if run.seconds and run.steps:
            key = run.experiment, run.fidelity, plan.place_text(run.axes)
            paces.setdefault(key, []).append(run.seconds / run.steps)
    total = 0.0
    for place, steps in runs:
        if own := paces.get((place.experiment, place.fidelity, plan.place_text(place.axes))):
            total += statistics.median(own) * steps
        elif declared := _declared(place):
            total += declared
        else:
            return None
    return total


def _declared(place: Place) -> float | None:
    fidelities = plan.experiment(place.experiment, place.config_dir)["fidelities"]
    return fidelities.get(place.fidelity, {}).get("seconds")
