"""Predicts how long runs take: from the times of similar runs, else from the times that their experiment declares."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from pathlib import Path

from normbench.config import plan
from normbench.config.spec import Spec
from normbench.runs.run import Run


def seconds(specs: Iterable[Spec], timed: Iterable[Run], config_dir: Path | None) -> float | None:
    """The total time of runs; None if it is unknown for one of them.

    Per update the median over timed runs of the same experiment at the same fidelity, with the same model and values of
    the axes, else per run `seconds` of the experiment's fidelity.
    """
    paces: dict[tuple[str, ...], list[float]] = {}
    for run in timed:
        if run.seconds and run.steps:
            paces.setdefault(_similar(run), []).append(run.seconds / run.steps)
    total = 0.0
    for spec in specs:
        if same := paces.get(_similar(spec)):
            total += statistics.median(same) * spec.steps
        else:
            fidelity = plan.experiment(spec.experiment, config_dir).fidelities.get(spec.fidelity)
            if fidelity is None or fidelity.seconds is None:
                return None
            total += fidelity.seconds
    return total


def _similar(run: Run | Spec) -> tuple[str, ...]:
    return run.experiment, run.fidelity, run.config["model"]["name"], plan.place_text(run.axes)
