"""Figure and table of an artifact that has no module: the numbers that its claims compare, by arm and place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from normbench.config import plan
from normbench.draw.panels import AXES, Look, Panel, Quantity
from normbench.draw.panels import panels as all_panels
from normbench.draw.style import EXTRA_COLOURS, colours_of
from normbench.draw.tables import Entry, cells, estimate_entry, final_entry, times_entry
from normbench.papers.claims import MODES, Artifact, Endpoint, Part
from normbench.papers.endpoints import outcome_of
from normbench.runs.record import LOSSES, RunRecord
from normbench.stats.series import CLOCKS, Censored, Reached


def panels(artifact: Artifact, runs: Sequence[RunRecord]) -> list[Panel]:
    """A row for each metric that a claim reads from curves, a column for each place on the experiment's axes.

    A metric that no run logs, or logs at one point only, has no row.
    """
    rows: dict[tuple[str, str, str], Quantity] = {}
    clock = _clock(artifact, runs)
    for part in _parts(artifact):
        if (one := part.endpoint).kind != "value":
            where, log = (one.split, one.mode, one.metric), one.metric in LOSSES
            rows[where] = Quantity(_format_title(*where), *where, log=log, x=AXES[clock], clock=clock)
    figure = all_panels(runs, _looks(artifact, runs), _places(artifact, runs), list(rows.values()))
    curves = {panel.quantity for panel in figure if any(len(line.points) > 1 for line in panel.lines)}
    return [panel for panel in figure if panel.quantity in curves]


def table(artifact: Artifact, runs: Sequence[RunRecord]) -> list[Entry]:
    """Every number that a claim compares, by arm: at each place on the axes, then the same under each control.

    Areas, and times to a level that depends on other runs, are replaced by the last value: the figure has the curve.
    """
    numbers = _numbers(artifact)
    names = {one.key: one.quantity(artifact.names) for one, _ in numbers if one.kind == "value"}
    entries = []
    for title, place in _places(artifact, runs).items():
        own = [run for run in runs if run.matches(place)]
        for group, control, arm, cell in cells(artifact.settings, own, _looks(artifact, runs), title):
            where = f"{group}, {title}" if control and place else group
            entries += [_entry(cell, where, arm, endpoint, unit) for endpoint, unit in numbers]
    entries = [replace(entry, quantity=names.get(entry.quantity, entry.quantity)) for entry in entries]
    return sorted(entries, key=lambda entry: entry.group.startswith("control "))


def _entry(cell: Sequence[RunRecord], group: str, arm: str, endpoint: Endpoint, unit: str) -> Entry:
    found = _estimate(cell, group, arm, endpoint, unit, 100 if unit == "%" else 1)
    # an arm without this evaluation did not diverge
    absent = cell and not found.n and all(run.status == "done" for run in cell)
    return replace(found, n=len(cell), diverged=0, literal="–") if absent else found


def _estimate(cell: Sequence[RunRecord], group: str, arm: str, endpoint: Endpoint, unit: str, factor: float) -> Entry:
    """The estimate over runs; a geometric mean for final losses, which span orders of magnitude."""
    if endpoint.kind == "final" and endpoint.metric in LOSSES:
        where = (endpoint.split, endpoint.mode, endpoint.metric)
        name = f"{endpoint}, geometric mean"
        return final_entry(cell, group, arm, name, where, factor, unit, variant=endpoint.variant, log=True)
    outcomes = [outcome_of(endpoint, run, endpoint.variant) for run in cell]
    if endpoint.kind == "time_to_level":
        undiverged = [one for one in outcomes if one and not one.diverged]
        times = [Censored(one.after) if one.value is None else Reached(one.value) for one in undiverged]
        return times_entry(times, len(cell) - len(undiverged), group, arm, str(endpoint), CLOCKS[endpoint.clock])
    values = [None if one is None or one.value is None else factor * one.value for one in outcomes]
    return estimate_entry(values, group, arm, str(endpoint), unit)


def _numbers(artifact: Artifact) -> list[tuple[Endpoint, str]]:
    """The endpoints that the parts compare, each once, with its unit in the table."""
    found: dict[str, tuple[Endpoint, str]] = {}
    for part in _parts(artifact):
        one = part.endpoint
        if one.kind not in ("value", "chosen") and (one.relative or one.level is None):
            one = replace(one, kind="final")
        unit = "" if one.kind == "time_to_level" or part.scale == "log" else part.unit
        unit = "%" if part.scale == "percent" else unit.replace("log ratio", "").replace("points", "")
        for _, cell in part.contrast:
            seen = replace(one, variant=cell.get("variant", one.variant))
            found.setdefault(str(seen), (seen, unit))
    return list(found.values())


def _parts(artifact: Artifact) -> Iterator[Part]:
    for claim in artifact.claims:
        yield from (*claim.parts, *claim.reported)


def _clock(artifact: Artifact, runs: Sequence[RunRecord]) -> str:
    """One clock for all rows, which share their axis: that of a claim, or that of the runs' length."""
    default = "step" if runs and not any(run.epochs for run in runs) else "epoch"
    return next((part.endpoint.clock for part in _parts(artifact) if part.endpoint.clock != "epoch"), default)


def _format_title(split: str, mode: str, metric: str) -> str:
    name = f"{split} {'NLL' if metric == 'nll' else metric}".replace("_", " ")
    return name[:1].upper() + name[1:] + ("" if mode == "eval" else f", {MODES[mode]}")


def _looks(artifact: Artifact, runs: Sequence[RunRecord]) -> dict[str, Look]:
    """Every arm of the experiment in its normalizer's colour, a second arm of the same one in another."""
    norm_of = {run.arm: run.config.get("norm", {}) for run in reversed(runs)}
    arms = plan.experiment(artifact.experiment, artifact.config_dir).arms
    norms = {arm: norm_of.get(arm, {}).get("name", arm) for arm in arms}
    colours = colours_of(norms.values())
    spare = [colour for colour in EXTRA_COLOURS if colour not in colours.values()]
    looks: dict[str, Look] = {}
    for arm, norm in norms.items():
        used = {look.colour for look in looks.values()}
        free = (colour for colour in (colours[norm], *spare) if colour not in used)
        looks[arm] = Look(arm, next(free, colours[norm]))
    return looks


def _places(artifact: Artifact, runs: Sequence[RunRecord]) -> dict[str, Mapping[str, Any]]:
    """By title the places on the experiment's axes that have runs, all where none has; without axes there is one."""
    node = plan.experiment(artifact.experiment, artifact.config_dir)
    places = [dict(zip(node.axes, values, strict=True)) for values in product(*node.axes.values())]
    present = [place for place in places if any(run.matches(place) for run in runs)] or places
    return {plan.place_text(place) or node.title: place for place in present}
