"""The curves of a comparison as panels of a figure for a paper: of its groups, or of what a page shows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from normbench.compare import configuration, paper_references
from normbench.compare.groups import Cell
from normbench.draw.panels import AXES, Line, Panel, Quantity
from normbench.web.board import MANY, Board, Style, joined, short_text
from normbench.web.plots import line_of, metric_name

Ends = tuple[float, float]
ALL = -math.inf  # what exceeds it is cut: an axis is over the means, which wide intervals would flatten


def of_groups(board: Board) -> list[Panel]:
    """A panel for each group of arms; where learning rates were swept, of each arm at its best one alone."""
    groups = [group for group in board.comparison.groups if group.tuned] or board.comparison.groups

    def style(cell: Cell) -> Style:
        """Of the arm; with its rate where each has its own."""
        of_cell = board.styles[cell.key]
        name = of_cell.name if groups[0].tuned else board.names[board.question.arm(cell)]
        return replace(board.arm_style(cell), name=name)

    panels = []
    for group in groups:
        title = joined(board.task.title, group.place * (len(groups) > 1))
        panels.append(_panel(board, title, [row.cell for row in group.rows], style, {}))
    return [panel for panel in panels if panel.lines]


def on_show(board: Board, query: Mapping[str, str]) -> list[Panel]:
    """What a page shows of these parameters: its panels, and in each the cells that are not hidden."""
    shown, facet = board.shown(query), query.get("beside", "")
    places: dict[str, list[Cell]] = {}
    for cell in sorted(shown, key=lambda cell: configuration.rank(cell.values.get(facet))):
        place = f"{facet}={short_text(cell, facet)}" if facet in board.question.facets else ""
        places.setdefault(place, []).append(cell)
    zooms = _zooms(query.get("zoom", ""))
    has_bands = query["band"] == "1" if query.get("band") else len(shown) <= MANY
    panels = []
    for key, of_metric in {"": board, **board.panels(query.get("panels", ""))}.items():
        for place, cells in places.items():
            panel = _panel(of_metric, place, cells, lambda cell: board.styles[cell.key], query, zooms.get("x"))
            if key == "" and query.get("paper") != "0" and board.clock == board.question.clock:
                panel = replace(panel, references=paper_references.references(board.comparison))
            if not has_bands:
                panel = replace(panel, lines=list(map(_without_band, panel.lines)))
            panels.append(replace(panel, limits=zooms.get(key)))
    return [panel for panel in panels if panel.lines]


def _panel(
    board: Board,
    title: str,
    cells: Sequence[Cell],
    style: Callable[[Cell], Style],
    query: Mapping[str, str],
    zoom: Ends | None = None,
) -> Panel:
    """The means of these cells, without the untrained model, and where somebody has zoomed in, of that stretch."""
    low, high = zoom or (0.0, math.inf)
    lines = []
    for cell in cells:
        line, of_cell = line_of(board, cell), style(cell)
        means = [p for p in line.points if p.mean is not None and math.isfinite(p.mean)]
        points = [p for p in means if p.x > 0 and low <= p.x <= high]
        if points:
            named = replace(line.look, name=of_cell.name, dash=of_cell.dash)
            lines.append(replace(line, points=points, look=named))
    q = board.question
    log = query["log"] == "1" if query.get("log") else q.metric.loss
    log = log and all(p.mean > 0 for line in lines for p in line.points if p.mean is not None)
    quantity = Quantity(
        metric_name(board),
        *q.where,
        log=log,
        log_x=query.get("logx") == "1",
        x=AXES.get(board.clock, "Second"),
        clock=board.clock,
        top=ALL,
    )
    return Panel(title, quantity, lines)


def _without_band(line: Line) -> Line:
    return replace(line, points=[replace(point, interval=None) for point in line.points])


def _zooms(text: str) -> dict[str, Ends]:
    """The stretches of an address, by "x" or a panel's key: `x,2,9|valid:nll,0.1,0.4`."""
    stretches = [stretch.rsplit(",", 2) for stretch in text.split("|") if stretch]
    return {key: (float(low), float(high)) for key, low, high in stretches}
