"""Figures of a metric against what was swept, as Plotly data: points by one option, and parallel coordinates of all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from normbench.compare import configuration, describe
from normbench.compare.answer import Row
from normbench.compare.groups import Cell
from normbench.draw.text import cut, minus
from normbench.web.board import PARALLEL, Board, short_text, unit_of
from normbench.web.figures import Figure, bare, label
from normbench.web.plots import axis_of, error_of, markers, metric_name, note

MOST_TICKS = 12  # of one option, each with its own place; more numbers have an axis
LONGEST = 18  # characters of a value
WIDTH = 0.6  # of what the arms of one value share
ROOM = 0.08  # of an axis, beyond both of its ends
BEYOND = 1.0  # times the way from the lowest run to the highest: an interval that is wider is cut, with a mark
APART = 0.04  # of an axis: lines through one value lie side by side
HIDDEN = {"showticklabels": False, "showgrid": False, "ticks": ""}
LOG = 10.0  # from the least to the largest value: then the axis is logarithmic


class _Scale:
    """Places of the values of an option, or of numbers: each its own where there are few, else along an axis."""

    def __init__(self, values: Sequence[Any], texts: Sequence[str], ordinal: bool = True, log: bool = False) -> None:
        ranks = {configuration.rank(value): text for value, text in zip(values, texts, strict=True)}
        self.ranks = sorted(ranks)
        self.texts = [cut(ranks[rank], LONGEST) for rank in self.ranks]
        numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
        self.ordinal = ordinal and (len(self.ranks) <= MOST_TICKS or not numbers)
        ends = (float(min(values)), float(max(values))) if numbers else (0.0, 1.0)
        self.log = numbers and ends[0] > 0 and (log or (ordinal and ends[1] / ends[0] >= LOG))
        self.ends = (math.log10(ends[0]), math.log10(ends[1])) if self.log else ends

    def place(self, value: Any) -> float:
        """Of values with a place each their number, else the value."""
        return float(self.ranks.index(configuration.rank(value))) if self.ordinal else float(value)

    def share(self, value: Any) -> float:
        """How far from the lowest to the highest."""
        if self.ordinal:
            return self.place(value) / max(1, len(self.ranks) - 1)
        position = math.log10(value) if self.log else value
        return (position - self.ends[0]) / ((self.ends[1] - self.ends[0]) or 1.0)

    def ticks(self) -> list[tuple[float, str]]:
        """Some shares of the way, with their values."""
        if self.ordinal:
            return [(place / max(1, len(self.texts) - 1), text) for place, text in enumerate(self.texts)]
        shares = (0.0, 0.25, 0.5, 0.75, 1.0)
        values = [self.ends[0] + share * (self.ends[1] - self.ends[0]) for share in shares]
        return [(s, f"{10**value if self.log else value:.3g}") for s, value in zip(shares, values, strict=True)]


def swept(board: Board) -> Figure | None:
    """What the address asks for instead of curves; None for curves, and where no run has a number."""
    cells = [cell for cell in board.cells if board.rows[cell.key].at.mean is not None]
    if not board.plot or not cells:
        return None
    return parallel(board, cells) if board.plot == PARALLEL else points(board, cells, board.plot)


def points(board: Board, cells: Sequence[Cell], key: str) -> Figure:
    """The metric by an option: a small mark for each run, a larger one with its interval for the mean of a cell."""
    values, unit = [cell.values.get(key) for cell in cells], unit_of(board.question)
    scale = _Scale(values, [short_text(cell, key) for cell in cells])
    arms = list(dict.fromkeys(map(board.question.arm, cells)))
    log, low, high = _ends([board.rows[cell.key] for cell in cells], board.question.metric.loss)
    data: list[dict[str, Any]] = []
    for cell, value in zip(cells, values, strict=True):
        row, style = board.rows[cell.key], board.arm_style(cell)
        beside = scale.ordinal and key not in board.question.by  # arms of one value side by side
        offset = (arms.index(row.arm) + 0.5) / len(arms) - 0.5 if beside else 0.0
        x, mean = scale.place(value) + WIDTH * offset, row.at.mean or 0.0
        of_seeds = {seed: number for seed, number in row.values.items() if number is not None}
        texts = [f"{style.name}, seed {seed}: {minus(f'{number:.4g}')}{unit}" for seed, number in of_seeds.items()]
        small = {"y": [*of_seeds.values()], "marker": {"size": 6, "symbol": style.symbol}, "opacity": 0.55}
        data.append(markers("run", cell.key, style.colour, [x] * len(of_seeds), texts, **small))
        text = f"{style.name}: {row.at.text()}{unit}"
        interval = row.at.interval or (mean, mean)
        visible = max(interval[0], low), min(interval[1], high)
        error = error_of([mean], [row.at.interval and visible], 1.6)
        large = {"y": [mean], "marker": {"size": 10, "symbol": style.symbol}, "error_y": error}
        data.append({**markers("point", cell.key, style.colour, [x], [text], **large), "name": label(style.name)})
        for end, shown, mark in zip(interval, visible, ("down", "up"), strict=True):
            if shown != end:
                arrow = {"y": [shown], "marker": {"size": 9, "symbol": f"triangle-{mark}"}}
                data.append(markers("cut", cell.key, style.colour, [x], [text], **arrow))
    data.sort(key=lambda trace: trace["meta"]["role"] == "point")  # means on top
    ends = [math.log10(end) if log else end for end in (low, high)]
    room = ROOM * (ends[1] - ends[0]) or 1.0
    y_axis = {"type": "log" if log else "linear", "range": [ends[0] - room, ends[1] + room]}
    x_axis: dict[str, Any] = {"type": "log"} if scale.log else {}
    if scale.ordinal:
        ticks = {"tickvals": [*range(len(scale.texts))], "ticktext": list(map(label, scale.texts))}
        x_axis = {**ticks, "range": [-0.5, len(scale.texts) - 0.5], "showgrid": False}
    titles = {"xaxis": (key, x_axis), "yaxis": (metric_name(board), y_axis)}
    axes = {name: axis_of(title, fixedrange=True, **axis) for name, (title, axis) in titles.items()}
    return {"data": data, "layout": {**bare(64, 12, 8, 44), **axes}}


def _ends(rows: Sequence[Row], loss: bool) -> tuple[bool, float, float]:
    """Whether the axis of the metric is logarithmic, and what it is over: all runs, and intervals as far as they do not
    flatten them."""
    numbers = [number for row in rows for number in (row.at.mean, *row.values.values()) if number is not None]
    log = loss and min(numbers) > 0
    low, high = (math.log10(end) if log else end for end in (min(numbers), max(numbers)))
    ends = [end for row in rows for end in row.at.interval or ()]
    places = [math.log10(end) if log and end > 0 else -math.inf if log else end for end in ends]
    far = BEYOND * (high - low)
    low, high = max(min([low, *places]), low - far), min(max([high, *places]), high + far)
    return log, *((10**low, 10**high) if log else (low, high))


def parallel(board: Board, cells: Sequence[Cell]) -> Figure:
    """A line for each cell through its value of everything that was swept, to the mean of the metric."""
    keys = board.swept
    means = [board.rows[cell.key].at.mean or 0.0 for cell in cells]
    texts = [text.at for text in describe.table([board.rows[cell.key] for cell in cells], board.comparison)]
    scales = [_Scale([c.values.get(key) for c in cells], [short_text(c, key) for c in cells]) for key in keys]
    metric = _Scale(means, texts, ordinal=False, log=board.question.metric.loss)
    data = []
    for number, (cell, mean, text) in enumerate(zip(cells, means, texts, strict=True)):
        style, offset = board.styles[cell.key], APART * ((number + 0.5) / len(cells) - 0.5)
        shares = [s.share(cell.values.get(key)) + offset * s.ordinal for key, s in zip(keys, scales, strict=True)]
        words = [f"{style.name}: {text}{unit_of(board.question)}"] * (len(keys) + 1)
        line = {"mode": "lines+markers", "marker": {"size": 5}, "line": {"width": 1.8, "dash": style.dash}}
        trace = markers("point", cell.key, style.colour, range(len(keys) + 1), words, **line)
        data.append({**trace, "y": [*shares, metric.share(mean)], "name": label(style.name)})
    notes = [
        note(place, share, "center", text, "--muted")
        for place, scale in enumerate([*scales, metric])
        for share, text in scale.ticks()
    ]
    titles = [*(cut(key.rpartition(".")[2], LONGEST) for key in keys), metric_name(board)]
    ticks = {"tickvals": [*range(len(titles))], "ticktext": list(map(label, titles)), "ticks": ""}
    ends: dict[str, Any] = {
        "xaxis": {"range": [-ROOM, len(keys) + ROOM], **ticks},
        "yaxis": {"range": [-ROOM, 1 + ROOM], **HIDDEN},
    }
    axes = {name: axis_of("", fixedrange=True, showline=False, **axis) for name, axis in ends.items()}
    return {"data": data, "layout": {**bare(40, 40, 8, 44), **axes, "annotations": notes}}
