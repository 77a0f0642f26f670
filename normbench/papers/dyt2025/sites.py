"""What runs record of each site at their end, as a line over the sites of a Transformer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from normbench.draw.panels import Line, Look
from normbench.draw.tables import within
from normbench.runs.run import Run
from normbench.stats.series import Point, final, sites
from normbench.stats.statistics import t_interval

Places = Sequence[tuple[float, str]]  # on the axis, and the number that stands there


def line(runs: Sequence[Run], arm: str, style: Look, places: Places, of: Callable[[float], float] = float) -> Line:
    """At each place the mean over the arm's runs of what they record there at their last update."""
    cell = within(runs, {"arm": arm})
    curves = [
        [(x, of(v)) for x, name in places if (v := final(run, "train", "eval", name)) is not None] for run in cell
    ]
    points = []
    for x, _ in places:
        estimate = t_interval([value for curve in curves for at, value in curve if at == x])
        if estimate.n:
            points.append(Point(x, estimate.mean, estimate.interval, estimate.n, 0))
    seeds = [(run.seed, run.id, curve) for run, curve in zip(cell, curves, strict=True)]
    return Line(arm, style, points, seeds, sum(run.status == "diverged" for run in cell))


def paths(runs: Sequence[Run], arm: str) -> list[str]:
    """The sites of the arm's runs, from the first to the last."""
    return next((names for run in within(runs, {"arm": arm}) if (names := sites(run, "train", "input_std"))), [])


def label(path: str) -> str:
    """0.attn for block.0.attention: nine of them fit below an axis of one column."""
    return path.removeprefix("block.").replace("attention", "attn")
