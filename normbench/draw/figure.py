"""Panels as the published SVG, and as a figure for a paper, by matplotlib."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import Any, BinaryIO

from normbench.draw import captions
from normbench.draw.panels import Line, Panel, layout
from normbench.draw.style import WIDTH, pyplot, save
from normbench.draw.text import minus, visible

DASHES: dict[str, Any] = {
    "solid": "-", "dash": "--", "dot": ":", "dashdot": "-.",
    "longdash": (0, (8, 3)), "longdashdot": (0, (8, 3, 2, 3)),
}  # fmt: skip
FULL, LETTER, LINE = 8.4, 0.066, 0.17  # inches: a figure's width, a letter of the legend, a line of it
GREY = {"color": "#666666", "fontsize": 8}
LEAST = 14  # letters' heights: a panel is not narrower where there are several
TEXTS = ("font.size", "axes.titlesize", "axes.labelsize", "xtick.labelsize", "ytick.labelsize", "legend.fontsize")


def figure(panels: Sequence[Panel], target: BinaryIO) -> None:
    """Means over seeds with 95 % intervals (geometric on a log axis), in the rows of `layout`; caption below."""
    plt = pyplot()
    rows = [(block, row) for block in layout(panels) for row in block]
    across = max(len(row) for _, row in rows)
    width, height = FULL / max(2, across), 3.1 if across < 3 else 2.5
    names = max((len(name) for panel in panels for name in panel.categories), default=0)  # they stand upright
    size = (width * across, (height + LETTER * names) * len(rows))
    fig, axes = plt.subplots(len(rows), across, figsize=size, squeeze=False, layout="constrained")
    conditions = len({panel.column for panel in panels})
    everywhere = captions.coinciding_everywhere(panels)
    for row_axes, (block, row) in zip(axes, rows, strict=True):
        for axis, panel in zip(row_axes, row, strict=False):
            _draw(axis, panel)
            title = _lines(panel.column, width - 0.7, 11) if conditions > 1 and row is block[0] else ""
            note = "" if everywhere else captions.coinciding(panel)
            _finish(axis, panel, title, _lines(note, width - 0.7, 8), last=row is block[-1])
        for axis in row_axes[len(row) :]:
            axis.set_axis_off()
    if conditions == 1:
        fig.suptitle(literal_text(panels[0].column), fontsize=11)
    below = _legend(fig, width * across)
    text = _lines(captions.of_figure(panels), width * across, 8)
    fig.text(0.5, -below / fig.get_figheight(), text, ha="center", va="top", **GREY)
    save(fig, target)


def paper_figure(panels: Sequence[Panel], target: BinaryIO, form: str, width: float, font_size: float) -> None:
    """A figure exactly so many inches wide, all its text in one size in points; its caption is the paper's.

    form: pdf, svg or png.
    """
    plt, inch = pyplot(), 72 / font_size  # letters' heights in one
    rows = [(block, row) for block in layout(panels, max(1, int(width * inch / LEAST))) for row in block]
    across = max(len(row) for _, row in rows)
    of_panel = width / across, min(0.75 * width / across, 30 / inch)
    conditions = len({panel.column for panel in panels})
    with plt.rc_context({name: font_size for name in TEXTS} | {"axes.linewidth": 0.6, "legend.handlelength": 2.4}):
        size = (width, of_panel[1] * len(rows))
        fig, axes = plt.subplots(len(rows), across, figsize=size, squeeze=False, layout="constrained")
        for row_axes, (block, row) in zip(axes, rows, strict=True):
            for axis, panel in zip(row_axes, row, strict=False):
                _draw(axis, panel)
                title = _lines(panel.column, of_panel[0], font_size) if conditions > 1 and row is block[0] else ""
                _finish(axis, panel, title, "", last=row is block[-1], most_ticks=5)
                axis.set_ylabel(_lines(panel.quantity.name, of_panel[1], font_size))
                for line in axis.lines:
                    line.set_linewidth(line.get_linewidth() / 12 * font_size)
            for axis in row_axes[len(row) :]:
                axis.set_axis_off()
        _legend_below(fig, width, font_size)
        save(fig, target, form, tight=False)


def _legend_below(fig: Any, width: float, font_size: float) -> None:
    """Each name once, in as many columns as the figure has room for; it grows by the height that they take."""
    handles = {text: line for axis in fig.axes for line, text in zip(*axis.get_legend_handles_labels(), strict=True)}
    names = [textwrap.fill(text, int(9 * (width - 0.4) / (LETTER * font_size))) for text in handles]
    for columns in range(len(names), 0, -1):
        legend = fig.legend(handles.values(), names, loc="outside lower center", ncols=columns)
        if columns == 1 or legend.get_window_extent().width <= fig.bbox.width:
            fig.set_figheight(fig.get_figheight() + legend.get_window_extent().height / fig.dpi)
            return
        legend.remove()


def literal_text(text: str) -> str:
    """Text that matplotlib shows as it is: to it dollar signs are mathematics, and a label with a leading _ is none."""
    printable = visible(text).replace("$", r"\$")
    return f" {printable}" if printable.startswith("_") else printable


def _lines(text: str, width: float, size: float) -> str:
    """The text in lines that fit into so many inches."""
    return (
        literal_text(text)
        if len(text) < 20
        else "\n".join(map(literal_text, textwrap.wrap(visible(text), int(9 * width / (LETTER * size)))))
    )


def _legend(fig: Any, width: float) -> float:
    """Each name once, below the axes, in as many columns as fit; returns how many inches it takes."""
    handles: dict[str, Any] = {}
    for axis in fig.axes:
        for line, text in zip(*axis.get_legend_handles_labels(), strict=True):
            handles.setdefault(text, line)  # the line of a curve, not a later panel's point
    if not handles:
        return 0.1
    columns = max(1, min(len(handles), 3, int(width / (0.6 + LETTER * max(map(len, handles))))))
    fig.legend(handles.values(), handles.keys(), loc="upper center", ncol=columns, bbox_to_anchor=(0.5, 0.0))
    return LINE * math.ceil(len(handles) / columns) + 0.25


def _draw(axis: Any, panel: Panel) -> None:
    for reference in panel.references if panel.lines else ():
        x, y = [place for place, _ in reference.points], [value for _, value in reference.points]
        style: dict[str, Any] = {"color": reference.colour, "zorder": 1, "label": literal_text(reference.name)}
        if panel.categories:
            axis.plot(x, y, "D", markersize=4, markerfacecolor="none", **style)
        else:
            axis.plot(x, y, DASHES[reference.dash], lw=WIDTH["reference"], **style)
    for line in panel.lines:
        if panel.categories:
            _draw_points(axis, line)
        else:
            _draw_line(axis, line, each_seed=panel.quantity.median)


def _draw_points(axis: Any, line: Line) -> None:
    colour = line.look.colour
    axis.plot([p.x for p in line.points], [p.mean for p in line.points], "o", markersize=4, color=colour,
              label=literal_text(line.look.name))  # fmt: skip
    for x, low, high in line.band():
        axis.plot([x, x], [low, high], "-", color=colour, lw=1)


def _draw_line(axis: Any, line: Line, each_seed: bool) -> None:
    look = line.look
    style, width = DASHES[look.line_dash], WIDTH["paper" if look.in_paper else "extra"]
    for _, _, curve in line.seeds if each_seed else ():
        axis.plot([x for x, _ in curve], [y for _, y in curve], style, color=look.colour, lw=0.6, alpha=0.5)
    x = [point.x for point in line.points]
    axis.plot(
        x, [point.mean for point in line.points], style, color=look.colour, lw=width, label=literal_text(look.name)
    )
    band = line.band()
    if band:
        axis.fill_between(*zip(*band, strict=True), color=look.colour, alpha=0.12, lw=0)


def _finish(axis: Any, panel: Panel, title: str, coincide: str, last: bool, most_ticks: int = 9) -> None:
    """Names and scales of the axes; between title and axes, never over a curve, which lines coincide."""
    axis.set_ylabel(literal_text(panel.quantity.name))
    axis.set_title(title, pad=6 + 11 * len(coincide.splitlines()))
    axis.text(0.5, 1.02, coincide, ha="center", va="bottom", transform=axis.transAxes, **GREY)
    if last:
        axis.set_xlabel(literal_text(panel.quantity.x))
    if not panel.lines:
        axis.set_xticks([])
        axis.set_yticks([])
        axis.text(0.5, 0.5, "not run", ha="center", va="center", transform=axis.transAxes, color="#888888")
        return
    if panel.categories:
        axis.set_xticks(range(1, len(panel.categories) + 1), list(map(literal_text, panel.categories)), rotation=90)
    elif panel.quantity.over_time:
        axis.locator_params(axis="x", integer=True)
    if panel.quantity.log_x:
        axis.set_xscale("log")
    if panel.quantity.log:
        axis.set_yscale("log")
    limits = panel.view()
    if panel.quantity.log or (panel.quantity.top is not None and axis.get_ylim()[1] > panel.quantity.top):
        axis.set_ylim(*limits)
    if ticks := panel.ticks(most_ticks):
        axis.set_yticks(ticks, [minus(f"{tick:.3g}") for tick in ticks])
        axis.set_yticks([], minor=True)
