"""What logs declare of the numbers that a part compares: a claim that goes against it, or beyond it, is refused."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from normbench.compare import metrics
from normbench.errors import BadInput, unknown
from normbench.files.stored import IMPORT
from normbench.papers.claims import Endpoint, Level, Part, format_cell
from normbench.runs.run import Run
from normbench.stats.series import CLOCKS, series


def at_best(end: Endpoint) -> bool:
    """Whether the endpoint is read where a run is best by what it monitors."""
    return end.kind == "chosen" and end.epoch in ("best", "own")


def declared(part: Part, runs: Sequence[Run]) -> Part:
    """The part with what the runs declare of its metric. NormbenchError where they declare otherwise, or nothing."""
    end, where = part.endpoint, f"part '{part.id}': "
    cells = [cell for _, cell in part.contrast]
    if len(cells) > len({format_cell(cell) for cell in cells}):
        raise BadInput(f"{where}it compares {format_cell(cells[0])} with itself.")
    if end.kind == "value":
        return part
    known = [metric for run in runs for metric in metrics.logged([run]).get(end.split, []) if metric.name == end.metric]
    if end.mode == "eval" and not known and not any(run.status == "diverged" for run in runs):
        of_split = metrics.logged([*runs])
        if end.split not in of_split:
            raise unknown(f"{where}no run has the split {end.split}.", end.split, of_split)
        names = [metric.name for metric in of_split[end.split]]
        raise unknown(f"{where}no run has the metric {end.metric} of {end.split}.", end.metric, names)
    ways = {metric.better for metric in known} - {""}
    better = end.better or (min(ways) if len(ways) == 1 else None)
    directed = part.kind == "no_worse" or part.test == "sign" or end.kind == "time_to_level" or end.least
    facts = [run.config[IMPORT]["metrics"].get(end.metric, {}) for run in runs if IMPORT in run.config]
    units = {str(each.get("unit")) for each in facts}
    logs = {bool(each.get("log")) for each in facts}
    monitors = {tuple(run.monitor.values()) for run in runs}
    monitored = f"epoch: {end.epoch} is where what is monitored is best, and"
    faults = {
        f"nothing declares whether a lower or a higher {end.metric} is better: `better`.": directed and not better,
        f"better: {end.better}, but the runs declare the other way of {end.metric}.": (
            end.better and ways - {end.better}
        ),
        f"the runs have {end.metric} in different units: {', '.join(sorted(units))}.": (
            len(units) > 1 or len({metric.share for metric in known}) > 1
        ),
        f"scale: percent needs a share, and {end.metric} is not declared as one. In the map of the import, "
        "unit: fraction; values that are percentages already have scale: linear.": (
            part.scale == "percent" and not all(metric.share for metric in known)
        ),
        **_faults_of_clocks(end, runs),
        f"{monitored} the runs monitor different metrics.": at_best(end) and len(monitors) > 1,
        f"{monitored} no map of an import has `monitor`.": at_best(end) and not runs[0].monitor["metric"],
        f"some maps say log: true of {end.metric}, some do not.": len(logs) > 1,
        f"than: {part.than} is before the first point of a run that is at its level there. Claim a later number.": any(
            _at_level_from_first(part, better, run) for run in runs
        ),
    }
    for fault, is_so in faults.items():
        if is_so:
            raise BadInput(f"{where}{fault}")
    log = logs.pop() if logs else None
    return replace(part, endpoint=replace(end, better=better, log=log, trapezoid=end.kind == "area"))


def _at_level_from_first(part: Part, better: str | None, run: Run) -> bool:
    """Whether a run is at the level whose time is compared at its first point, and this is later than the number."""
    end, level = part.endpoint, part.endpoint.level
    if part.than is None or level is None or isinstance(level, Level):
        return False
    x, value = next(iter(series(run, end.split, end.mode, end.metric, x=end.clock)), (math.inf, math.nan))
    return x > part.than and (value >= level if better == "higher" else value <= level)


def _faults_of_clocks(end: Endpoint, runs: Sequence[Run]) -> dict[str, bool]:
    by_run = [clocks(run) for run in runs]
    clock = end.clock if end.kind == "time_to_level" else "epoch" if type(end.epoch) is int else ""
    common = [name for name in CLOCKS if all(name in of_run for of_run in by_run)]
    has = " or ".join(common) or "none that all have"
    return {
        f"it needs the clock {clock}, which not all runs declare. Their clocks: {has}.": (
            bool(clock) and clock not in common
        ),
        "some runs count updates, some epochs alone: they have no common steps.": (
            len({"step" in of_run for of_run in by_run}) > 1
        ),
    }


def clocks(run: Run) -> Sequence[str]:
    """By which its curves are logged."""
    return [*(run.config[IMPORT]["clocks"] if IMPORT in run.config else CLOCKS)]
