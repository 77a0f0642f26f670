"""DyT Tables 8 and 9 as a figure: the test error of each function, and without alpha, beside the curves."""

from __future__ import annotations

from collections.abc import Sequence
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
    return [*curves, *(_bars(runs, curves[0].column, name, arms) for name, arms in TABLES.items())]


def _bars(runs: Sequence[Run], column: str, name: str, arms: dict[str, str]) -> Panel:
    points = []
    for place, arm in enumerate(arms.values(), 1):
        cell = within(runs, {"arm": arm})
        errors = [at_epoch(run, "test", "error", "last") for run in cell if run.status != "diverged"]
        estimate = rate_interval([100 * error for error in errors if error is not None], 100.0)
        if estimate.n:
            points.append(Point(place, estimate.mean, estimate.interval, estimate.n, len(cell) - len(errors)))
    lines = [Line("dyt", Look("DyT", COLOURS["dyt"]), points, [], sum(point.diverged for point in points))]
    return Panel(column, replace(ERROR, x=name), lines if points else [], (), list(arms))
