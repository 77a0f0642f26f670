"""Draws figure and table of an artifact as its file lists them; of one that lists nothing, what its claims compare."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import cycle, product
from typing import Any

from normbench.config import plan
from normbench.draw.panels import AXES, Look, Panel, Quantity, line_of
from normbench.draw.style import EXTRA_COLOURS, colours_of
from normbench.draw.tables import Entry, estimate_entry, times_entry, within
from normbench.draw.text import minus, show
from normbench.papers.claims import MODES, READ, Artifact, Cell, Column, Endpoint, Figure, Line, Part, Scale, Table
from normbench.papers.endpoints import Outcome, levelled, outcome_of
from normbench.runs.run import LOSSES, Run
from normbench.stats.series import Censored, Reached

REPLACED = ("final", "area", "gain", "time_to_level")  # endpoints whose curve the figure has: the table has its end
TINY = 1e-9  # of a computed number: beyond the digits of float32

# --- figures ---------------------------------------------------------------------------------------------------------


def panels(artifact: Artifact, runs: Sequence[Run]) -> list[Panel]:
    """The figure of the file; one that lists neither figure nor table has the metrics that claims read from curves.

    A metric that no run logs, or logs at one point only, has no row in the latter.
    """
    if artifact.figure:
        return _panels(artifact, artifact.figure, runs)
    if artifact.table:
        return []
    drawn = _panels(artifact, _figure_of_claims(artifact, runs), runs)
    curves = {panel.quantity for panel in drawn if any(len(line.points) > 1 for line in panel.lines)}
    return [panel for panel in drawn if panel.quantity in curves]


def _panels(artifact: Artifact, figure: Figure, runs: Sequence[Run]) -> list[Panel]:
    """With the arms in a stranger's results that the experiment does not have."""
    columns = figure.columns or _places(artifact, runs)
    looks = _looks(figure.lines, runs) if figure.lines else _looks_of_arms(artifact, runs)
    known = {*_arms(artifact), *looks}
    strangers = [arm for arm in dict.fromkeys(run.arm for run in runs) if arm not in known]
    looks |= {arm: Look(arm, colour, in_paper=False) for arm, colour in zip(strangers, cycle(EXTRA_COLOURS))}
    lines = {**figure.lines, **{arm: Line({"arm": arm}) for arm in looks if arm not in figure.lines}}
    drawn = []
    for quantity, (title, cell) in product(figure.rows, columns.items()):
        curves = []
        for name, line in lines.items():
            if line.panels and not {quantity.name, title} & {*line.panels}:
                continue
            place, read = _split(line.cell)
            arm = str(place["arm"]) if line.cell.keys() == {"arm"} else name
            curves.append(line_of(within(runs, {**cell, **place}), arm, looks[name], replace(quantity, **read)))
        drawn.append(Panel(title, quantity, [curve for curve in curves if curve.points]))
    return drawn


def _split(cell: Cell) -> tuple[dict[str, Any], dict[str, Any]]:
    """Which runs a cell means, and what it reads of them."""
    place = {key: value for key, value in cell.items() if key not in READ}
    return place, {key: value for key, value in cell.items() if key in READ}


def _looks(lines: Mapping[str, Line], runs: Sequence[Run]) -> dict[str, Look]:
    norms = _norms(runs)
    looks = {}
    for name, line in lines.items():
        arm = str(line.cell.get("arm", name))
        colour = line.colour or norms.get(arm, arm)
        colour = colour if colour.startswith("#") else colours_of([colour])[colour]
        looks[name] = Look(name, colour, in_paper=not line.ours)
    return looks


def _looks_of_arms(artifact: Artifact, runs: Sequence[Run]) -> dict[str, Look]:
    """Every arm of the experiment in its normalizer's colour, a second arm of the same one in another."""
    norms = _norms(runs)
    norms = {arm: norms.get(arm, arm) for arm in _arms(artifact)}
    colours = colours_of(norms.values())
    spare = [colour for colour in EXTRA_COLOURS if colour not in colours.values()]
    looks: dict[str, Look] = {}
    for arm, norm in norms.items():
        used = {style.colour for style in looks.values()}
        free = (colour for colour in (colours[norm], *spare) if colour not in used)
        looks[arm] = Look(arm, next(free, colours[norm]))
    return looks


def _norms(runs: Sequence[Run]) -> dict[str, str]:
    """The normalizer of each arm, of its first run."""
    return {run.arm: run.config.get("norm", {}).get("name", run.arm) for run in reversed(runs)}


def _arms(artifact: Artifact) -> list[str]:
    return list(plan.experiment(artifact.experiment, artifact.config_dir).arms)


def _places(artifact: Artifact, runs: Sequence[Run]) -> dict[str, Cell]:
    """By title the places on the experiment's axes that have runs, all where none has; without axes there is one."""
    node = plan.experiment(artifact.experiment, artifact.config_dir)
    places = [dict(zip(node.axes, values, strict=True)) for values in product(*node.axes.values())]
    present = [place for place in places if any(run.matches(place) for run in runs)] or places
    return {plan.place_text(place) or node.title: place for place in present}


# --- tables ----------------------------------------------------------------------------------------------------------


def table(artifact: Artifact, runs: Sequence[Run]) -> list[Entry]:
    """The table of the file, else every number that a claim compares, by arm."""
    tables = artifact.table or [_table_of_claims(artifact)]
    return [entry for part in tables for entry in _entries(artifact, part, runs)]


def _entries(artifact: Artifact, part: Table, runs: Sequence[Run]) -> Iterator[Entry]:
    """By group, row and column; then the same under each control, of the rows that have runs there."""

    @cache  # most columns read the same runs
    def runs_at(control: str, *place: tuple[str, Any]) -> list[Run]:
        return within(runs, dict(place), control)

    groups = part.groups or _places(artifact, runs)
    rows = rows_of(artifact, part)
    controls = artifact.settings[1:] if part.controls else ()
    settings = [(title, "") for title in groups] + [(title, control) for title in groups for control in controls]
    for title, control in settings:
        group = title
        if control:
            group = f"control {control}, {title}" if groups[title] else f"control {control}"
        places = {row: {**groups[title], **cell} for row, cell in rows.items()}
        peers = [(cell, run) for row, cell in rows.items() for run in runs_at(control, *_split(places[row])[0].items())]
        for row, column in product(rows, part.columns):
            place, read = _split({**places[row], **column.cell})
            chosen = runs_at(control, *place.items())
            if row not in (column.rows or rows) or (control and not chosen):
                continue
            endpoint = replace(column.endpoint, **read)
            outcomes = [_outcome(endpoint, run, peers if endpoint.relative else ()) for run in chosen]
            of_paper = not control and all(run.fidelity == "paper" for run in runs)
            paper = column.paper_text(row, title) if of_paper else ""
            yield _entry(column, (group, row, column.name, column.shown_unit), paper, chosen, outcomes)


def rows_of(artifact: Artifact, part: Table) -> Mapping[str, Cell]:
    """Those of the file, else the lines of its figure, else the arms."""
    if part.rows:
        return part.rows
    if artifact.figure and artifact.figure.lines:
        return {name: line.cell for name, line in artifact.figure.lines.items()}
    return {arm: {"arm": arm} for arm in _arms(artifact)}


def _outcome(endpoint: Endpoint, run: Run, peers: Sequence[tuple[Cell, Run]]) -> Outcome | None:
    """A relative level is that of the run's seed; one that cannot be computed is not reached."""
    compared = [(cell, peer, endpoint.variant) for cell, peer in peers if peer.seed == run.seed]
    levels = levelled(endpoint, compared)
    return outcome_of(levels or replace(endpoint, level=math.nan), run, endpoint.variant)


def _entry(
    column: Column,
    where: tuple[str, str, str, str],
    paper: str,
    runs: Sequence[Run],
    outcomes: Sequence[Outcome | None],
) -> Entry:
    """A dash where runs that did not diverge lack this evaluation."""
    if runs and not any(outcomes) and all(run.status == "done" for run in runs):
        return Entry(*where, len(runs), paper=paper, literal="–")
    if column.endpoint.kind == "time_to_level":
        undiverged = [outcome for outcome in outcomes if outcome and not outcome.diverged]
        times = [Censored(time.after) if time.value is None else Reached(time.value) for time in undiverged]
        return times_entry(times, len(runs) - len(undiverged), *where, paper)
    factor = 100 if column.scale == "percent" else 1
    values = [None if outcome is None or outcome.value is None else factor * outcome.value for outcome in outcomes]
    entry = estimate_entry(values, *where, paper, log=column.scale == "log")
    if column.median and entry.n:
        seeds = sorted(value for value in values if value is not None)
        text = f"{show(statistics.median(seeds))} (seeds: {', '.join(map(show, seeds))})"
        return Entry(*where, entry.n, paper=paper, literal=text)
    if column.digits and entry.mean is not None:
        return replace(entry, literal=minus(f"{entry.mean:.{column.digits}g}") if abs(entry.mean) > TINY else "0")
    return entry


# --- of claims -------------------------------------------------------------------------------------------------------


def _figure_of_claims(artifact: Artifact, runs: Sequence[Run]) -> Figure:
    """A row for each metric that a claim reads from curves."""
    rows: dict[tuple[str, str, str], Quantity] = {}
    clock = _clock(artifact, runs)
    for part in _parts(artifact):
        if (endpoint := part.endpoint).kind not in ("value", "over_sites"):
            where, log = (endpoint.split, endpoint.mode, endpoint.metric), endpoint.metric in LOSSES
            rows[where] = Quantity(_format_title(*where), *where, log=log, x=AXES[clock], clock=clock)
    return Figure(tuple(rows.values()))


def _table_of_claims(artifact: Artifact) -> Table:
    """Every number that a part compares, once.

    Areas, and times to a level that depends on other runs, are replaced by the last value: the figure has the curve. It
    is the geometric mean of losses, which span orders of magnitude.
    """
    columns: dict[str, Column] = {}
    for part in _parts(artifact):
        endpoint = part.endpoint
        if endpoint.kind in REPLACED and (endpoint.relative or endpoint.level is None):
            endpoint = replace(endpoint, kind="final")
        log = endpoint.kind == "final" and endpoint.metric in LOSSES
        scale: Scale = "log" if log else "percent" if part.scale == "percent" else "linear"
        unit = "" if endpoint.kind == "time_to_level" or part.scale == "log" else part.unit
        unit = "%" if part.scale == "percent" else unit.replace("log ratio", "").replace("points", "")
        for _, cell in part.contrast:
            of_cell = replace(endpoint, variant=cell.get("variant", endpoint.variant))
            name = of_cell.quantity(artifact.names) if endpoint.kind == "value" else str(of_cell)
            name = f"{name}, geometric mean" if log else name
            columns.setdefault(str(of_cell), Column(name, of_cell, scale=scale, unit=unit))
    return Table(tuple(columns.values()))


def _parts(artifact: Artifact) -> Iterator[Part]:
    for claim in artifact.claims:
        yield from (*claim.parts, *claim.reported)


def _clock(artifact: Artifact, runs: Sequence[Run]) -> str:
    """One clock for all rows, which share their axis: that of a claim, or that of the runs' length."""
    default = "step" if runs and not any(run.epochs for run in runs) else "epoch"
    return next((part.endpoint.clock for part in _parts(artifact) if part.endpoint.clock != "epoch"), default)


def _format_title(split: str, mode: str, metric: str) -> str:
    name = f"{split} {'NLL' if metric == 'nll' else metric}".replace("_", " ")
    return name[:1].upper() + name[1:] + ("" if mode == "eval" else f", {MODES[mode]}")
