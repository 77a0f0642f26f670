"""Figures of a comparison as Plotly data: curves, paired difference, forest, sensitivity, heat map.

As in `figures`, every trace carries `meta`: the cell (`arm`), its role and its colour on a light and on a dark page.
Curves are thinned to the plot's width; extremes and gaps stay.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from normbench.draw.panels import Line, Look, Panel, Quantity, Reference
from normbench.draw.style import REFERENCE
from normbench.draw.text import show
from normbench.stats.series import Point, Series
from normbench.web.figures import Figure, bare, figure, label, meta

COLUMNS = 400  # of points: a screen's plot is about twice as wide
OF_SEEDS = 160  # the same for a seed's faint curve; many seeds share ALL_SEEDS
ALL_SEEDS = 8_000
ROW = 46  # pixels of a forest plot's row: a line of text, and the interval below it
HEADING = 0.5  # of a row: the name of a place above its rows
LONGEST = 44  # characters of a label within a plot


@dataclass(frozen=True)
class Effect:
    """One row of the forest plot: `text` is beside the interval."""

    cell: str
    look: Look
    mean: float
    interval: tuple[float, float] | None
    text: str
    place: str = ""  # its facets: rows of one place are below its name


@dataclass(frozen=True)
class Setting:
    """One learning rate of an arm: the mean over seeds, and whether it is the best rate of this arm."""

    x: float
    mean: float | None
    interval: tuple[float, float] | None
    text: str
    best: bool = False


# --- fewer points ----------------------------------------------------------------------------------------------------


def points_to_draw(x: Sequence[float], curves: Sequence[Sequence[float]], columns: int) -> list[int]:
    """Which points to draw in so many columns: of each column the extremes of every curve, and both sides of a gap.

    x: ascending. Curves with NaN or inf have a gap there. All points where there are at most two a column.
    """
    n = len(x)
    if n <= 2 * columns:
        return list(range(n))
    width = (x[-1] - x[0]) / columns or 1.0
    chosen = {0, n - 1}
    for y in curves:
        finite = [math.isfinite(value) for value in y]
        chosen.update(i + side for i in range(n - 1) if finite[i] != finite[i + 1] for side in (0, 1))
        column, low, high = -1, 0, 0
        for i in range(n):
            if not finite[i]:
                continue
            if (here := int((x[i] - x[0]) / width)) != column:
                chosen |= {low, high}
                column, low, high = here, i, i
            elif y[i] < y[low]:
                low = i
            elif y[i] > y[high]:
                high = i
        chosen |= {low, high}
    return sorted(chosen)


def thinned(points: Series, columns: int) -> Series:
    """A curve for so many columns of a plot, values to five digits."""
    indices = points_to_draw([x for x, _ in points], [[y for _, y in points]], columns)
    return [(_digits(points[i][0], 7), _digits(points[i][1], 5)) for i in indices]


def thinned_line(line: Line, of_seeds: int = OF_SEEDS) -> Line:
    """A mean with its interval for COLUMNS, its seeds for so many."""
    points = line.points
    ends = [p.interval or (math.nan, math.nan) for p in points]
    means = [math.nan if p.mean is None else p.mean for p in points]
    curves = [means, [low for low, _ in ends], [high for _, high in ends]]
    few = [_short(points[i]) for i in points_to_draw([p.x for p in points], curves, COLUMNS)]
    return replace(line, points=few, seeds=[(s, run, thinned(curve, of_seeds)) for s, run, curve in line.seeds])


def columns_of_seeds(count: int) -> int:
    """How many columns each of so many faint curves gets."""
    return max(OF_SEEDS // 4, min(OF_SEEDS, ALL_SEEDS // max(1, count)))


def _short(point: Point) -> Point:
    interval = point.interval and (_digits(point.interval[0], 6), _digits(point.interval[1], 6))
    mean = None if point.mean is None else _digits(point.mean, 6)
    return replace(point, x=_digits(point.x, 7), mean=mean, interval=interval)


def _digits(value: float, digits: int) -> float:
    if type(value) is int or not math.isfinite(value):
        return value
    short = float(f"{value:.{digits}g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


# --- curves ----------------------------------------------------------------------------------------------------------


def curves(
    lines: Sequence[Line],
    quantity: Quantity,
    references: Sequence[Reference] = (),
    lost: Mapping[str, str] | None = None,
    level: float | None = None,
    times: Mapping[str, tuple[float, tuple[float, float] | None, str]] | None = None,
) -> Figure:
    """Mean, 95 % band and seeds of every cell, a cross where a run diverged, the level and when it was reached.

    lines: thinned; `arm` is the cell's key. lost: why, by id of the runs that diverged. times: by cell the mean time
    to the level, its interval, and the text on hovering.
    """
    visible = [line for line in lines if line.points]
    drawing = figure(
        # of a single run the mean is its curve; that an axis is logarithmic is a switch of the page
        Panel(
            "",
            replace(quantity, log=False),
            [line if len(line.seeds) > 1 else replace(line, seeds=[]) for line in visible],
            references,
        )
    )
    alone = {line.arm for line in visible if len(line.seeds) == 1}
    for trace in drawing["data"]:
        if trace["meta"]["arm"] in alone and trace["meta"]["role"] == "mean":
            del trace["customdata"]  # a run alone has no interval to tell
            trace["hovertemplate"] = "%{y:.4~g}"
        elif trace["meta"]["role"] == "seed":
            trace |= {"hoverinfo": "skip", "opacity": 0.45}
            del trace["hovertemplate"]
    drawing["data"] += [cross for line in visible if (cross := _crosses(line, lost or {}))]
    if level is not None and visible:
        drawing["data"] += _level(level, visible, times or {})
    layout = drawing["layout"]
    layout["hovermode"] = "closest" if len(visible) > 12 else "x unified"
    layout["meta"] = {"ranges": _ranges(visible), "log": quantity.log}
    layout["xaxis"] |= {"exponentformat": "SI"}
    return drawing


def _crosses(line: Line, lost: Mapping[str, str]) -> dict[str, Any] | None:
    ends = []
    for seed, run, curve in line.seeds:
        finite = [point for point in curve if math.isfinite(point[1])]
        if run in lost and finite:
            ends.append((*finite[-1], label(f"{line.look.name} seed {seed}: {lost[run] or 'diverged'}")))
    if not ends:
        return None
    return {
        "x": [_digits(x, 7) for x, _, _ in ends],
        "y": [_digits(y, 5) for _, y, _ in ends],
        "customdata": [text for _, _, text in ends],
        "name": label(f"{line.look.name}, diverged"),
        "type": "scatter",
        "mode": "markers",
        "marker": {"symbol": "x", "size": 9},
        "hovertemplate": "%{customdata}<extra></extra>",
        "meta": {**meta(line.arm, line.look.colour), "role": "diverged"},
    }


def _level(
    level: float, lines: Sequence[Line], times: Mapping[str, tuple[float, tuple[float, float] | None, str]]
) -> list[dict[str, Any]]:
    ends = [x for line in lines for x in (line.points[0].x, line.points[-1].x)]
    found: list[dict[str, Any]] = [
        {
            "x": [min(ends), max(ends)],
            "y": [level, level],
            "name": label(f"level {level:.4g}"),
            "type": "scatter",
            "mode": "lines",
            "line": {"width": 1, "dash": "dot"},
            "hoverinfo": "skip",
            "meta": {**meta("", REFERENCE), "role": "level"},
        }
    ]
    for line in lines:
        if line.arm not in times:
            continue
        mean, interval, text = times[line.arm]
        if interval is not None:  # no further than the curves
            interval = max(interval[0], min(ends)), min(interval[1], max(ends))
        found.append(
            {
                "x": [_digits(mean, 6)],
                "y": [level],
                "customdata": [label(text)],
                "name": label(line.look.name),
                "type": "scatter",
                "mode": "markers",
                "marker": {"symbol": "line-ns-open", "size": 12, "line": {"width": 2}},
                "error_x": _error(mean, interval),
                "hovertemplate": "%{customdata}<extra></extra>",
                "meta": {**meta(line.arm, line.look.colour), "role": "time"},
            }
        )
    return found


def _ranges(lines: Sequence[Line]) -> dict[str, list[float]]:
    """The ranges of a linear and a logarithmic axis, from the means after the first evaluation.

    Cells in which every run diverged count only if there are no others.
    """
    whole = [line for line in lines if line.diverged < max(1, len(line.seeds))] or lines
    means = [p.mean for line in whole for p in line.points[1:] or line.points if p.mean is not None]
    found: dict[str, list[float]] = {}
    if means:
        low, high = min(means), max(means)
        room = 0.06 * (high - low) or 0.05 * abs(high) or 1.0
        found["linear"] = [low - room, high + room]
    if positive := [mean for mean in means if mean > 0]:
        low, high = math.log10(min(positive)), math.log10(max(positive))
        room = max(0.05, 0.06 * (high - low))
        found["log"] = [low - room, high + room]
    return found


def _error(mean: float, interval: tuple[float, float] | None) -> dict[str, Any]:
    if interval is None:
        return {"visible": False}
    return {
        "type": "data",
        "symmetric": False,
        "array": [_digits(interval[1] - mean, 6)],
        "arrayminus": [_digits(mean - interval[0], 6)],
        "thickness": 1.8,
        "width": 4,
    }


# --- the difference of two cells ------------------------------------------------------------------------------------


def difference(points: Sequence[Point], name: str, x: str, look: Look) -> Figure:
    """Paired difference of two cells over time: mean over the seeds that both have, 95 % band, and zero."""
    line = Line("difference", look, points, [], 0)
    drawing = figure(Panel("", Quantity(name, "", "", "", x=x), [thinned_line(line)]))
    drawing["layout"]["yaxis"]["zeroline"] = True
    return drawing


# --- every arm against the baseline ----------------------------------------------------------------------------------


def forest(effects: Sequence[Effect], title: str) -> Figure:
    """A row per effect with its interval, its label above it; zero in the middle."""
    limit = _limit(effects)
    data, notes = [], []
    number, place = -1.0, ""
    for effect in effects:
        number += 1
        if effect.place != place:
            place = effect.place
            notes.append(_note(-limit, -number, "left", cut(place, LONGEST), "--muted"))
            number += HEADING
        ends = effect.interval and (_within(effect.interval[0], limit), _within(effect.interval[1], limit))
        symbol = "circle" if abs(effect.mean) < limit else "triangle-right" if effect.mean > 0 else "triangle-left"
        data.append(
            {
                "x": [_digits(_within(effect.mean, limit), 6)],
                "y": [-number],
                "customdata": [label(f"{effect.look.name}: {effect.text}")],
                "type": "scatter",
                "mode": "markers",
                "marker": {"size": 9, "symbol": symbol},
                "cliponaxis": False,
                "error_x": _error(effect.mean, ends if symbol == "circle" else None),
                "hovertemplate": "%{customdata}<extra></extra>",
                "meta": {**meta(effect.cell, effect.look.colour), "role": "effect"},
            }
        )
        # in a corner of its row: the name left, the numbers right, above the interval
        notes += [
            _note(-limit, -number, "left", cut(effect.look.name, LONGEST - len(effect.text)), "--text"),
            _note(limit, -number, "right", effect.text, "--muted"),
        ]
    return {
        "data": data,
        "layout": {
            "height": round(ROW * (number + 1)) + 62,
            "xaxis": {
                "title": {"text": label(title)}, "range": [-limit, limit], "zeroline": True, "nticks": 5,
                "fixedrange": True,
            },
            "yaxis": {
                "range": [-0.25 - number, 0.72], "showticklabels": False, "showgrid": False, "zeroline": False,
                "ticks": "", "fixedrange": True,
            },
            "annotations": notes,
            **bare(8, 8, 4, 52),
        },
    }  # fmt: skip


def _limit(rows: Sequence[Effect]) -> float:
    """The value at both ends: one effect far off, or a hopelessly wide interval, must not flatten all others."""
    reach = [max(abs(e.mean), *(abs(end) for end in e.interval or (0.0,))) for e in rows]
    return 1.08 * min(max(reach), 4 * statistics.median_low(reach)) or 1.08 * max(reach) or 1.0


def _within(value: float, limit: float) -> float:
    return max(-limit, min(limit, value))


def _note(x: float, y: float, anchor: str, text: str, colour: str) -> dict[str, Any]:
    """Text above an interval; the page gives it the colour of that name."""
    return {
        "x": x, "y": y, "yshift": 13, "xanchor": anchor, "yanchor": "middle", "showarrow": False,
        "text": label(text), "font": {"size": 12 if anchor == "left" else 11}, "name": colour,
    }  # fmt: skip


def cut(text: str, most: int) -> str:
    """At most so many characters."""
    most = max(most, 8)
    return text if len(text) <= most else f"{text[: most - 1]}…"


# --- learning rates and arms ------------------------------------------------------------------------------------------


def sensitivity(arms: Sequence[tuple[str, Look, Sequence[Setting]]], x: str, y: str, log: bool) -> Figure | None:
    """The metric against the learning rate, a line an arm; the best rate of each with a larger mark."""
    data = []
    for arm, look, settings in arms:
        points = [s for s in sorted(settings, key=lambda s: s.x) if s.mean is not None and s.x > 0]
        if not points:
            continue
        errors = [_ends(s) for s in points]
        data.append(
            {
                "x": [s.x for s in points],
                "y": [_digits(s.mean, 6) for s in points if s.mean is not None],
                "customdata": [label(s.text) for s in points],
                "name": label(look.name),
                "type": "scatter",
                "mode": "lines+markers",
                "line": {"width": 1.6},
                "marker": {"size": [11 if s.best else 6 for s in points]},
                "error_y": {
                    "type": "data",
                    "symmetric": False,
                    "array": [above for above, _ in errors],
                    "arrayminus": [below for _, below in errors],
                    "thickness": 1.2,
                    "width": 3,
                },
                "hovertemplate": "%{customdata}",
                "meta": {**meta(arm, look.colour), "role": "setting"},
            }
        )
    if not data:
        return None
    positive = [setting for _, _, settings in arms for setting in settings if setting.x > 0]
    axis: dict[str, Any] = {"title": {"text": label(y)}, "zeroline": False, "exponentformat": "power"}
    if log and all(setting.mean is None or setting.mean > 0 for setting in positive):
        axis["type"] = "log"
    rates = sorted({setting.x for setting in positive})
    axis_x = {"title": {"text": label(x)}, "type": "log", "zeroline": False, "tickvals": rates,
              "ticktext": [f"{rate:.2g}" for rate in rates]}  # fmt: skip
    return {"data": data, "layout": {**bare(56, 10, 8, 44), "xaxis": axis_x, "yaxis": axis}}


def _ends(setting: Setting) -> tuple[float, float]:
    """How far the interval reaches above and below the mean."""
    if setting.interval is None or setting.mean is None:
        return 0.0, 0.0
    return _digits(setting.interval[1] - setting.mean, 6), _digits(setting.mean - setting.interval[0], 6)


# --- variants of one evaluation --------------------------------------------------------------------------------------


def heat(rows: Sequence[str], columns: Sequence[str], values: Sequence[Sequence[float]], what: str) -> Figure:
    """A map with a row per variant and a column per setting: the rank within the column, coloured by the number."""
    shade: list[list[float]] = []
    texts: list[list[str]] = []
    hovers: list[list[str]] = []
    ranked = [_places(column) for column in zip(*values, strict=True)]
    for r, row in enumerate(rows):
        shade.append([less[r] / reach for less, reach, _ in ranked])
        texts.append([str(places[r]) for _, _, places in ranked])
        hovers.append(
            [
                label(f"{row} · {name}: place {places[r]}, {show(less[r])} from the column's mean")
                for name, (less, _, places) in zip(columns, ranked, strict=True)
            ]
        )
    return {
        "data": [
            {
                "type": "heatmap",
                "x": [label(cut(name, 28)) for name in columns],
                "y": [label(name) for name in rows],
                "z": [[_digits(value, 4) for value in row] for row in shade],
                "zmin": -1,
                "zmax": 1,
                "customdata": hovers,
                "text": texts,
                "texttemplate": "%{text}",
                "hovertemplate": "%{customdata}<extra></extra>",
                "showscale": False,
                "xgap": 2,
                "ygap": 1,
                "meta": {"arm": "", "role": "heat"},
            }
        ],
        "layout": {
            **bare(56, 10, 8, 44),
            "height": 22 * len(rows) + 150,
            "meta": {"caption": what},
            "xaxis": {"type": "category", "tickangle": -50, "fixedrange": True, "automargin": True},
            "yaxis": {"type": "category", "autorange": "reversed", "fixedrange": True, "automargin": True},
        },
    }  # fmt: skip


def _places(column: Sequence[float]) -> tuple[list[float], float, list[int]]:
    """The differences from the mean, the largest of them, and the ranks, 1 for the lowest number."""
    mean, ranked = statistics.fmean(column), sorted(column)
    less = [value - mean for value in column]
    return less, max(map(abs, less)) or 1.0, [1 + ranked.index(value) for value in column]
