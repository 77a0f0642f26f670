"""Predicts how long runs take: from the times of similar runs, else from the times that their experiment declares."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from normbench.config import plan
from normbench.config.spec import Spec
from normbench.runs.run import Run


@dataclass(frozen=True)
class Place:
    """Runs that take equally long per update: an experiment at a fidelity, a model, at values of its axes."""

    experiment: str
    fidelity: str
    model: str
    axes: Mapping[str, Any] = field(default_factory=dict)
    config_dir: Path | None = None

    @classmethod
    def of(cls, spec: Spec, config_dir: Path | None) -> Place:
        return cls(spec.experiment, spec.fidelity, spec.config["model"]["name"], spec.axes, config_dir)


def seconds(runs: Iterable[tuple[Place, int]], timed: Iterable[Run]) -> float | None:
    """The total time of runs, given each one's number of updates; None if it is unknown for one of them.

    Per update the median over timed runs of the same place, else per run `seconds` of the experiment's fidelity.
    """
    paces: dict[tuple[str, str, str, str], list[float]] = {}
    for run in timed:
        if run.seconds and run.steps:
            key = run.experiment, run.fidelity, run.config["model"]["name"], plan.place_text(run.axes)
            paces.setdefault(key, []).append(run.seconds / run.steps)
    total = 0.0
    for place, steps in runs:
        if same_place := paces.get((place.experiment, place.fidelity, place.model, plan.place_text(place.axes))):
            total += statistics.median(same_place) * steps
        else:
            fidelity = plan.experiment(place.experiment, place.config_dir).fidelities.get(place.fidelity)
            if fidelity is None or fidelity.seconds is None:
                return None
            total += fidelity.seconds
    return total
