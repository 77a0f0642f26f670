"""DyT Tables 8 and 9 as a figure: the test error of each function, and without alpha, beside the curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from normbench.draw.panels import Line, Look, Panel, Quantity
from normbench.draw.style import COLOURS
from normbench.draw.tables import within
from normbench.papers import default_artifact
from normbench.papers.claims import Artifact
from normbench.runs.run import Run
from normbench.stats.series import Point, at_epoch
from normbench.stats.statistics import rate_interval

TABLES = {
    "Table 8": {"without tanh": "identity", "tanh": "dyt", "hardtanh": "hardtanh", "sigmoid": "sigmoid"},
    "Table 9": {"without alpha": "no-alpha", "alpha fixed": "fixed-alpha", "alpha learned": "dyt"},
}
ERROR = Quantity("Test error, %", "test", "eval", "error", factor=100)


def panels(artifact: Artifact, runs: Sequence[Run]) -> list[Panel]:
    curves = default_artifact.panels(artifact, runs)
    looks = {line.arm: line.look for panel in curves for line in panel.lines}
    return [*curves, *(_table(runs, curves[0].column, name, arms, looks) for name, arms in TABLES.items())]


def _table(runs: Sequence[Run], column: str, name: str, arms: Mapping[str, str], looks: Mapping[str, Look]) -> Panel:
    lines = []
    for place, (function, arm) in enumerate(arms.items(), 1):
        cell = within(runs, {"arm": arm})
        trained = [run for run in cell if run.status != "diverged"]
        errors = [at_epoch(run, "test", "error", "last") for run in trained]
        estimate = rate_interval([100 * error for error in errors if error is not None], 100.0)
        diverged = len(cell) - len(trained)
        points = [Point(place, estimate.mean, estimate.interval, estimate.n, diverged)] if estimate.n else []
        lines.append(Line(arm, looks.get(arm, Look(function, COLOURS["dyt"])), points, [], diverged))
    drawn = [line for line in lines if line.points or line.diverged]
    return Panel(column, replace(ERROR, x=name), drawn, (), list(arms))
