"""Figures of a comparison as Plotly data: curves, paired difference, forest, learning rates, map of variants.

As in `figures`, every trace carries `meta`: the cell (`arm`), its role and its colour on a light and on a dark page.
Curves are thinned to the plot's width; extremes and gaps stay.
"""

from __future__ import annotations

import itertools
import math
import statistics
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from normbench.compare import configuration, describe, paper_references
from normbench.compare.answer import Group, Row
from normbench.compare.difference import Difference
from normbench.compare.groups import Cell, Task
from normbench.compare.question import TUNED, value
from normbench.draw.panels import Line, Look
from normbench.draw.style import REFERENCE
from normbench.draw.tables import mean_of_all
from normbench.draw.text import cut, show, told_apart
from normbench.runs.run import Run
from normbench.stats.series import Point, Series, aggregate, series, variants
from normbench.web.board import AXES, CACHE, ONE, Board, in_units, joined, key_of, stamp, unit_of
from normbench.web.figures import ROLES, Figure, bare, label, line_traces, meta, reference_trace
from normbench.web.json_safe import json_safe

Interval = tuple[float, float] | None
COLUMNS = 400  # of points: a screen's plot is about twice as wide
OF_SEEDS, FEWEST_OF_SEEDS = 160, 40  # the same for a seed's faint curve; many seeds share ALL_SEEDS
ALL_SEEDS = 8_000
MANY = 8  # curves: of more, hovering tells one
MOST_ROWS = 60  # of a forest plot
UNTRAINED = 0.04  # of the longest curve
ROW = 46  # pixels of its row: a line of text, and the interval below it
LINE = 16  # pixels of a further line
HEADING = 0.5  # of a row: the name of a place above its rows
ZERO = {"type": "line", "x0": 0, "x1": 0, "layer": "between", "line": {"width": 1}, "name": "--muted"}
ROOM_ABOVE, ROOM_BELOW = 5, 24  # pixels of the line at zero about an interval: it stops where numbers stand
LONGEST = 44  # characters of a label within a plot
NARROW = 34  # the same of what hovering says in a small one
CONFIGURATION = "configuration"  # the option whose values make a map of variants
MOST_COLUMNS = 10
ARROWS = ("triangle-left", "triangle-right")


# --- fewer points ----------------------------------------------------------------------------------------------------


def points_to_draw(x: Sequence[float], curves: Sequence[Sequence[float]], columns: int) -> list[int]:
    """Which points to draw in so many columns: of each column the extremes of every curve, and both sides of a gap.

    x: ascending. Curves with NaN or inf have a gap there. All points where there are at most two a column.
    """
    n = len(x)
    if n <= 2 * columns:
        return list(range(n))
    width = (x[-1] - x[0]) / columns or 1.0
    finite = [list(map(math.isfinite, y)) for y in curves]
    chosen = {0, n - 1}
    for is_finite in finite:
        chosen.update(i + side for i in range(n - 1) if is_finite[i] != is_finite[i + 1] for side in (0, 1))
    for _, indices in itertools.groupby(range(n), lambda i: int((x[i] - x[0]) / width)):
        column = list(indices)
        for y, is_finite in zip(curves, finite, strict=True):
            if places := [i for i in column if is_finite[i]]:
                chosen |= {min(places, key=y.__getitem__), max(places, key=y.__getitem__)}
    return sorted(chosen)


def _thinned(points: Series, columns: int) -> Series:
    indices = points_to_draw([x for x, _ in points], [[y for _, y in points]], columns)
    return [(_digits(points[i][0]), _digits(points[i][1])) for i in indices]


def _thinned_points(points: Sequence[Point], columns: int = COLUMNS) -> list[Point]:
    ends = [point.interval or (math.nan, math.nan) for point in points]
    curves = [[p.mean or 0.0 for p in points], [low for low, _ in ends], [high for _, high in ends]]
    return [
        replace(p, x=_digits(p.x), mean=_digits(p.mean or 0.0), interval=p.interval and _both(p.interval))
        for p in (points[i] for i in points_to_draw([p.x for p in points], curves, columns))
    ]


def _both(ends: tuple[float, float]) -> tuple[float, float]:
    return _digits(ends[0]), _digits(ends[1])


def _digits(value: float) -> float:
    """Six digits, which no screen can tell from more."""
    if type(value) is int or not math.isfinite(value):
        return value
    short = float(f"{value:.6g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


# --- parts of figures ------------------------------------------------------------------------------------------------


def markers(role: str, arm: str, colour: str, x: Sequence[float], texts: Sequence[str], **rest: Any) -> dict[str, Any]:
    """Points with a text each on hovering."""
    points = {"x": list(map(_digits, x)), "type": "scatter", "mode": "markers"}
    hover = {"customdata": list(map(label, texts)), "hovertemplate": "%{customdata}<extra></extra>"}
    return {**points, **hover, "meta": {**meta(arm, colour), "role": role}, **rest}


def axis_of(title: str, **rest: Any) -> dict[str, Any]:
    return {"title": {"text": label(title)}, "zeroline": False, "exponentformat": "power", **rest}


def error_of(means: Sequence[float], intervals: Sequence[Interval], thickness: float) -> dict[str, Any]:
    """How far intervals reach above and below their means."""
    ends = [(mean, *(interval or (mean, mean))) for mean, interval in zip(means, intervals, strict=True)]
    above = [_digits(high - mean) for mean, _, high in ends]
    below = [_digits(mean - low) for mean, low, _ in ends]
    style = {"visible": any(intervals), "type": "data", "symmetric": False, "thickness": thickness, "width": 4}
    return {**style, "array": above, "arrayminus": below}


# --- curves ----------------------------------------------------------------------------------------------------------


def curves(board: Board, columns: int = COLUMNS) -> Figure:
    """Mean, 95 % band and seeds of every cell, a cross where a run diverged, the level and when it was reached.

    columns: so many that points are thinned to.
    """
    q, lines = board.question, [line for cell in board.cells if (line := line_of(board, cell, columns)).points]
    data = [trace for line in lines for trace in _traces(board, line)]
    if board.clock == q.clock and lines:
        data += map(reference_trace, paper_references.references(board.comparison))
    data.sort(key=lambda trace: ROLES.index(trace["meta"]["role"]))  # later traces are on top
    data += [cross for line in lines if (cross := _crosses(board, line))]
    if q.level is not None and lines:
        data += _level(board, lines, q.level * q.metric.factor)
    last = max((line.points[-1].x for line in lines), default=0)
    epochs = {"dtick": 1} if board.clock == "epoch" and 1 <= last <= 5 else {}  # Plotly would label halves
    alone = len(lines) > MANY
    for trace in data if alone else ():
        if trace["meta"]["role"] in ("mean", "reference"):
            name = textwrap.wrap(trace["name"], LONGEST, break_long_words=False, break_on_hyphens=False)
            place = f"{ONE[board.clock]} %{{x:,~f}}"
            trace["hovertemplate"] = "<br>".join([*name, f"{place}: {trace['hovertemplate']}<extra></extra>"])
    return {
        "data": data,
        "layout": {
            **bare(64, 12, 8, 44),
            "xaxis": axis_of(AXES[board.clock], exponentformat="SI", **epochs),
            "yaxis": axis_of(metric_name(board)),
            "hovermode": "closest" if alone else "x unified",
            **({} if alone else {"hoverdistance": -1}),  # between two evaluations too
            "meta": {"axes": _axes(lines), "clock": ONE[board.clock]},
        },
    }


def metric_name(board: Board) -> str:
    return f"{board.question.split} {board.question.metric.title}{unit_of(board.question, ', ')}"


def line_of(board: Board, cell: Cell, columns: int = COLUMNS) -> Line:
    """Mean, interval and seeds of a cell in displayed units, over all its runs with records, thinned for the plot."""
    q, stretch = board.question, board.stretch(cell)
    runs = [run for run in cell.runs if run.records] if stretch else []
    of_seeds = min(columns, max(FEWEST_OF_SEEDS, min(OF_SEEDS, ALL_SEEDS // max(1, len(board.task.runs)))))

    def computed() -> tuple[list[Point], list[tuple[int, str, Series]]]:
        where, x, factor = q.where, board.logged_clock, q.metric.factor
        points = [in_units(p, stretch, factor) for p in aggregate(runs, *where, x=x) if p.mean is not None]
        seeds = [
            (run.seed, run.id, _thinned([(stretch * x, factor * y) for x, y in series(run, *where, x=x)], of_seeds))
            for run in runs
        ]
        return _thinned_points(points, columns), seeds

    name = ("line", cell.key, q.where, board.clock, board.task.budget)
    points, seeds = CACHE.get(name, (stamp(runs), q.metric.factor, stretch, columns, of_seeds), computed)
    style = board.styles[cell.key]
    return Line(
        cell.key,
        Look(style.name, style.colour, dash=style.dash),
        points,
        seeds,
        sum(run.status == "diverged" for run in runs),
    )


def _traces(board: Board, line: Line) -> list[dict[str, Any]]:
    """As the report has them; of a single run the mean is its curve, and there is no interval to tell."""
    alone = len(line.seeds) == 1
    traces = []
    for trace in line_traces(replace(line, seeds=[]) if alone else line):
        role = trace["meta"]["role"]
        if role == "seed":
            trace |= {"hoverinfo": "skip", "opacity": 0.45, "hovertemplate": None}
        elif role == "mean" and alone:
            trace |= {"customdata": None, "hovertemplate": "%{y:.4~g}"}
        traces.append(trace)
    return traces


def _crosses(board: Board, line: Line) -> dict[str, Any] | None:
    lost = {run.id: run.reason for run in board.rows[line.arm].cell.runs if run.status == "diverged"}
    ends = []
    for seed, run, curve in line.seeds:
        finite = [point for point in curve if math.isfinite(point[1])]
        if run in lost and finite:
            ends.append((*finite[-1], f"{line.look.name} seed {seed}: {lost[run] or 'diverged'}"))
    if not ends:
        return None
    x, y, texts = zip(*ends, strict=True)
    return markers("diverged", line.arm, line.look.colour, x, texts, y=y, marker={"symbol": "x", "size": 9})


def _level(board: Board, lines: Sequence[Line], level: float) -> list[dict[str, Any]]:
    """The level, and when cells reach it: intervals no further than the curves."""
    ends = min(line.points[0].x for line in lines), max(line.points[-1].x for line in lines)
    dotted = {"mode": "lines", "line": {"width": 1, "dash": "dot"}, "hoverinfo": "skip", "hovertemplate": None}
    name = label(f"level {level:.4g}")
    traces = [markers("level", "", REFERENCE, ends, (), y=[level, level], name=name, **dotted)]
    mark = {"symbol": "line-ns-open", "size": 12, "line": {"width": 2}}
    for line in lines:
        cell, time = board.rows[line.arm].cell, board.rows[line.arm].time
        if time is None or time.mean is None:
            continue
        factor = board.from_budget(cell)
        x = factor * time.mean
        interval = time.interval and (max(factor * time.interval[0], ends[0]), min(factor * time.interval[1], ends[1]))
        text = f"{line.look.name}: {time.text()} {time.unit} to the level"
        error = error_of([x], [interval], 1.8)
        traces.append(markers("time", line.arm, line.look.colour, [x], [text], y=[level], marker=mark, error_x=error))
    return traces


def _axes(lines: Sequence[Line]) -> dict[str, Any]:
    """What the page's axes are over: `whole`, the cells in which a run has not diverged; `begin`: up to there the model
    is as good as untrained, so y is over the means after it, and smoothing begins there."""
    whole = [line for line in lines if line.diverged < max(1, len(line.seeds))] or lines
    begin = UNTRAINED * max((line.points[-1].x for line in whole), default=0.0)
    return {"whole": [line.arm for line in whole], "begin": _digits(begin)}


def pair(board: Board, a: str, b: str) -> dict[str, Any] | None:
    """The options that differ between two cells, and the paired difference over time with its band, and zero."""
    compared = board.pair(a, b)
    if compared is None:
        return None
    content, points = compared
    unit = board.question.metric.step_unit
    style = board.styles[a]
    line = Line("difference", Look("difference", style.colour), _thinned_points(points), [], 0)
    axes = {
        "xaxis": axis_of(AXES[board.common_clock]),
        "yaxis": axis_of(f"difference, {unit}" if unit else "difference", zeroline=True),
    }
    layout = {**bare(64, 12, 8, 44), **axes, "hovermode": "x unified"}
    figure = {"data": line_traces(line), "layout": layout} if points else None
    return {**json_safe(content), "figure": figure}


# --- every arm against the baseline ----------------------------------------------------------------------------------


def forest(board: Board) -> Figure | None:
    """Every arm against the baseline, a row each, the headline's group first; where that has no baseline, its best arm
    against the others.

    Rows of one place are below its name; the name of an arm and its numbers are above its interval.
    """
    q, headline = board.question, board.groups[0]
    leads = [] if headline.against else [replace(headline.rows[0], difference=d) for d in headline.best_against_others]
    listed = [*((headline, row) for row in leads), *((group, row) for group in board.groups for row in group.rows)]
    rows = [(group, row, d) for group, row in listed if (d := row.difference) and d.mean is not None][:MOST_ROWS]
    if not rows:
        return None
    leading = [d for group, _, d in rows if group is headline] or [d for _, _, d in rows]  # others may be cut
    limit = _limit([(d.mean or 0.0, d.interval) for d in leading])
    data, notes, zeros, number, place = [], [], [], -1.0, ""
    texts = [cells.difference for cells in describe.table([row for _, row, _ in rows], board.comparison)]
    names = [_name(board, group, row, d, bool(leads)) for group, row, d in rows]
    two = any(len(name) + len(text) > LONGEST for name, text in zip(names, texts, strict=True))  # lines above a mark
    pitch = ROW + LINE * two
    for (group, row, d), text, name, short in zip(rows, texts, names, told_apart(names, LONGEST), strict=True):
        number += 1
        tuned = group.tuned
        setting = joined(
            board.describe_facets(row.cell, board.untuned if tuned else q.facets), "best rate of each" * tuned
        )
        if setting != place:
            place = setting
            notes.append(note(-limit, -number, "left", cut(place, LONGEST), "--muted", place, two))
            number += HEADING
        mean = d.mean or 0.0
        colour, hover = board.styles[row.cell.key].colour, f"{name}: {text}"
        data += _effect(row.cell.key, colour, mean, d.interval, limit, -number, hover)
        notes.append(note(-limit, -number, "left", short, "--text", name, two))
        notes.append(note(limit, -number, "right", text, "--muted"))
        zeros.append({**ZERO, "y0": -number - ROOM_BELOW / pitch, "y1": -number + ROOM_ABOVE / pitch})
    unit = f", {q.metric.step_unit}" if q.metric.step_unit else ""
    title = f"difference{'' if leads else f' from {cut(board.names[q.against], 24)}'}{unit}"
    x_axis = axis_of(title, range=[-limit, limit], nticks=5, fixedrange=True)
    if q.metric.rising is not None:
        x_axis["title"]["text"] += f"<br>{'right' if q.metric.rising else 'left'} is better"
    bare_axis = {"showticklabels": False, "showgrid": False, "showline": False, "ticks": ""}
    y_axis = axis_of("", range=[-0.25 - number, 0.72], fixedrange=True, **bare_axis)
    axes = {"xaxis": x_axis, "yaxis": y_axis, "height": round(pitch * (number + 1)) + 78}
    return {"data": data, "layout": {**bare(8, 8, 4, 68), **axes, "annotations": notes, "shapes": zeros}}


def _effect(
    arm: str, colour: str, mean: float, interval: Interval, limit: float, y: float, text: str
) -> list[dict[str, Any]]:
    """What lies within ±limit of an effect and its interval; arrows at the edges beyond which they go on."""
    low, high = interval or (mean, mean)
    is_inside = low < limit and high > -limit
    ends = (_within(low, limit), _within(high, limit)) if interval and is_inside else None
    x, mark = _within(mean, limit), {"size": 9, "opacity": float(abs(mean) <= limit)}
    goes_on = low < -limit, high > limit
    error = error_of([x], [ends], 1.8) | ({"width": 0} if any(goes_on) else {})  # a bar would look like an end
    marks: list[tuple[str, float, dict[str, Any], dict[str, Any]]] = [("effect", x, mark, {"error_x": error})]
    for edge, end, is_beyond, symbol in zip((-limit, limit), (low, high), goes_on, ARROWS, strict=True):
        if is_beyond:
            marks.append(("cut", edge, {"size": 11, "symbol": symbol}, {}))
        elif ends and any(goes_on):
            marks.append(("end", end, {"size": 8, "symbol": "line-ns-open", "line": {"width": 1.8}}, {}))
    return [
        markers(role, arm, colour, [place], [text], y=[y], marker=marker, cliponaxis=False, **rest)
        for role, place, marker, rest in marks
    ]


def _name(board: Board, group: Group, row: Row, d: Difference, lead: bool) -> str:
    """An arm, or what a difference is of; with its rate where each arm has its own."""
    names = {other.arm: board.names[board.question.arm(other.cell)] for other in group.rows}
    if lead:
        return f"{names[row.arm]} \N{MINUS SIGN} {names[d.second]}"
    return joined(names[row.arm], f"lr={row.cell.format_value(TUNED)}" * group.tuned)


def _limit(effects: Sequence[tuple[float, Interval]]) -> float:
    """The value at both ends: one effect far off, or a hopelessly wide interval, must not flatten all others."""
    reach = [max(abs(mean), *map(abs, interval or (0.0,))) for mean, interval in effects]
    limit = 1.08 * min(max(reach), 4 * statistics.median_low(reach)) or 1.08 * max(reach) or 1.0
    return _digits(limit)  # as marks are: Plotly draws none that is beyond by a rounding


def _within(value: float, limit: float) -> float:
    return max(-limit, min(limit, value))


def note(
    x: float, y: float, anchor: str, text: str, colour: str, whole: str = "", higher: bool = False
) -> dict[str, Any]:
    """Text above a place, the whole on hovering where it is cut; the page gives it the colour of that name.

    higher: above another text.
    """
    place = {"x": x, "y": y, "yshift": 13 + LINE * higher, "xanchor": anchor, "yanchor": "middle", "showarrow": False}
    return {
        **place,
        **({"hovertext": label(whole)} if whole not in ("", text) else {}),
        "text": label(text),
        "font": {"size": 12 if anchor == "left" else 11},
        "name": colour,
    }


# --- learning rates --------------------------------------------------------------------------------------------------


def sensitivity(board: Board) -> Figure | None:
    """The metric against the learning rate, a line an arm; the best rate of each with a larger mark."""
    arms: dict[tuple[str, str], list[Cell]] = {}
    for cell in board.cells if TUNED in board.task.differing else ():
        rate = cell.values.get(TUNED)
        if isinstance(rate, int | float) and rate > 0 and board.rows[cell.key].at.mean is not None:
            arm = board.names[board.question.arm(cell)], board.describe_facets(cell, board.untuned)
            arms.setdefault(arm, []).append(cell)
    data: list[dict[str, Any]] = []
    lowest = math.inf
    for arm, cells in arms.items():
        cells.sort(key=lambda cell: cell.values[TUNED])
        rows = [board.rows[cell.key] for cell in cells]
        rates, means = [cell.values[TUNED] for cell in cells], [row.at.mean or 0.0 for row in rows]
        lowest = min(lowest, *means)
        unit = unit_of(board.question)
        texts = [f"at {rate:g}: {row.at.text()}{unit}" for rate, row in zip(rates, rows, strict=True)]
        style = board.arm_style(cells[0])
        trace = markers("setting", key_of(board.question.arm(cells[0])), style.colour, rates, texts)
        name = joined(*arm)
        lines = map(label, textwrap.wrap(name, NARROW, break_on_hyphens=False))  # the whole has no room
        hover = "<br>".join([*lines, "%{customdata}<extra></extra>"])
        trace |= {"name": label(name), "mode": "lines+markers", "hovertemplate": hover}
        sizes = [11 if cell.key in board.best else 6 for cell in cells]
        sure = [row.at.interval if row.at.n >= 3 else None for row in rows]  # as a curve's band
        errors = error_of(means, sure, 1.2)
        marker = {"size": sizes, "symbol": style.symbol, "line": {"width": 0}}
        line = {"line": {"width": 1.6, "dash": style.dash}, "marker": marker, "error_y": errors}
        data.append({**trace, **line, "y": list(map(_digits, means))})
    if not data:
        return None
    rates = sorted({cell.values[TUNED] for cells in arms.values() for cell in cells})
    ticks = {"tickvals": rates, "ticktext": [f"{rate:.2g}" for rate in rates]}
    logarithm = {"type": "log"} if board.question.metric.loss and lowest > 0 else {}
    axes = {"xaxis": axis_of("Learning rate", type="log", **ticks), "yaxis": axis_of(metric_name(board), **logarithm)}
    caption = f"Large: the best rate by {describe.chosen_by(board.task)}." if board.best else ""
    return {"data": data, "layout": {**bare(56, 10, 8, 44), **axes, "meta": {"caption": caption}}}


# --- variants of one evaluation --------------------------------------------------------------------------------------


def heat(board: Board, cells: Sequence[Cell]) -> Figure | None:
    """All variants of the evaluation's statistics by data and batch size, with the papers' numbers: ranks by column.

    cells: those with the same variants, of other tasks too; see `with_variants`.
    """
    if not cells:
        return None
    q, names = board.question, _variants(cells[0])
    keys = configuration.differing([cell.values for cell in cells])
    among = configuration.numbers(cell.values for cell in cells)
    sign = -1 if q.metric.rising else 1
    columns: dict[str, list[float]] = {}
    for cell in cells:
        of_runs = [[value(run, q, variant=f"{CONFIGURATION}={name}") for name in names] for run in cell.done]
        means = [sign * m for m in map(mean_of_all, zip(*of_runs, strict=True)) if m is not None]
        if len(means) == len(names):
            columns.setdefault(configuration.label(cell.values, keys, among) or q.arm(board.cells[0]), means)
        for name, numbers in paper_references.numbers(cell, names):
            columns.setdefault(name, [numbers[variant] for variant in names])
    if not columns:
        return None
    columns = dict(list(columns.items())[:MOST_COLUMNS])
    ranked = [_places(column) for column in columns.values()]
    hovers = [
        [
            label(f"{name} · {column}: place {places[i]}, {show(less[i])} from the column's mean")
            for column, (less, _, places) in zip(columns, ranked, strict=True)
        ]
        for i, name in enumerate(names)
    ]
    places = range(len(names))
    trace = {
        "x": [label(cut(name, 28)) for name in columns],
        "y": list(map(label, names)),
        "z": [[_digits(less[i] / reach) for less, reach, _ in ranked] for i in places],
        "text": [[str(ranks[i]) for _, _, ranks in ranked] for i in places],
        "customdata": hovers,
    }
    style = {"type": "heatmap", "zmin": -1, "zmax": 1, "showscale": False, "xgap": 2, "ygap": 1}
    style |= {"texttemplate": "%{text}", "hovertemplate": "%{customdata}<extra></extra>"}
    axis = {"type": "category", "fixedrange": True, "automargin": True}
    axes = {"xaxis": {**axis, "tickangle": -50}, "yaxis": {**axis, "autorange": "reversed"}}
    caption = f"Place within a column by {q.split} {q.metric.title}, 1 and blue the best."
    layout = {**bare(56, 10, 8, 44), **axes, "height": 22 * len(names) + 150, "meta": {"caption": caption}}
    return {"data": [{**trace, **style, "meta": {"arm": "", "role": "heat"}}], "layout": layout}


def with_variants(task: Task, others: Sequence[Task], load: Any) -> list[Cell]:
    """The cells of a task that were evaluated in several variants, and those like them in other tasks."""
    cells = [cell for cell in task.cells if _variants(cell)]
    for other in others if cells else ():
        if other.key != task.key and other.model == task.model:
            alike = [cell for cell in other.cells if cell.norm == cells[0].norm and _variants(cell)]
            loaded: Mapping[str, Run] = load([run.id for cell in alike for run in cell.runs])
            cells += [cell.with_runs(loaded) for cell in alike]
    return cells


def _variants(cell: Cell) -> list[str]:
    """The variants in which the runs of a cell were evaluated, or are to be where no run has records.

    Empty for fewer than two variants.
    """
    names = [str(variant) for variant in cell.runs[0].config.get("eval", {}).get("variants") or ()]
    if len(names) > 1 and (read := next((run for run in cell.done if run.records), None)):
        names = [str(variant[CONFIGURATION]) for variant in variants(read) if set(variant) == {CONFIGURATION}]
    return names if len(names) > 1 else []


def _places(column: Sequence[float]) -> tuple[list[float], float, list[int]]:
    """The differences from the mean, the largest of them, and the ranks, 1 for the lowest number."""
    mean, ranked = statistics.fmean(column), sorted(column)
    less = [value - mean for value in column]
    return less, max(map(abs, less)) or 1.0, [1 + ranked.index(value) for value in column]
