"""Panels as the published SVG, by matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, BinaryIO

from normbench.draw.panels import Panel
from normbench.draw.style import REFERENCE, WIDTH, pyplot, save
from normbench.draw.text import visible

DASHES = {"solid": "-", "dash": "--", "dot": ":"}


def figure(panels: Sequence[Panel], target: BinaryIO) -> None:
    """Means over seeds with 95 % intervals (geometric on a log axis), a row per quantity, a column per condition."""
    plt = pyplot()
    columns = list(dict.fromkeys(panel.column for panel in panels))
    rows = list(dict.fromkeys(panel.quantity for panel in panels))
    size = (4.1 * len(columns), 3.1 * len(rows))
    fig, axes = plt.subplots(len(rows), len(columns), figsize=size, sharex="col", squeeze=False)
    for panel in panels:
        row, column = rows.index(panel.quantity), columns.index(panel.column)
        axis = axes[row][column]
        _draw(axis, panel)
        _finish(axis, panel)
        if row == 0:
            axis.set_title(literal_text(panel.column))
        if row == len(rows) - 1:
            axis.set_xlabel(literal_text(panel.quantity.x))
    handles = {text: line for axis in axes.flat for line, text in zip(*axis.get_legend_handles_labels(), strict=True)}
    if handles:
        fig.legend(handles.values(), handles.keys(), loc="upper center", ncol=3, bbox_to_anchor=(0.5, 0.0))
    fig.tight_layout()
    save(fig, target)


def literal_text(text: str) -> str:
    """Text that matplotlib shows as it is: to it dollar signs are mathematics, and a label with a leading _ is none."""
    printable = visible(text).replace("$", r"\$")
    return f" {printable}" if printable.startswith("_") else printable


def _draw(axis: Any, panel: Panel) -> None:
    for reference in panel.references if panel.lines else ():
        x, y = [epoch for epoch, _ in reference.points], [value for _, value in reference.points]
        grey: dict[str, Any] = {"color": REFERENCE, "lw": WIDTH["reference"], "zorder": 1}
        axis.plot(x, y, DASHES[reference.dash], label=literal_text(reference.name), **grey)
    for line in panel.lines:
        look = line.look
        style, width = ("-", WIDTH["paper"]) if look.in_paper else ("--", WIDTH["extra"])
        x = [point.x for point in line.points]
        axis.plot(
            x, [point.mean for point in line.points], style, color=look.colour, lw=width, label=literal_text(look.name)
        )
        band = [p for p in line.points if p.interval is not None and p.n >= 3]  # of two runs it covers the whole panel
        axis.fill_between(
            [p.x for p in band],
            [p.interval[0] for p in band if p.interval],
            [p.interval[1] for p in band if p.interval],
            color=look.colour,
            alpha=0.12,
            lw=0,
        )


def _finish(axis: Any, panel: Panel) -> None:
    axis.set_ylabel(literal_text(panel.quantity.name))
    if not panel.lines:
        axis.set_xticks([])
        axis.set_yticks([])
        axis.text(0.5, 0.5, "not run", ha="center", va="center", transform=axis.transAxes, color="#888888")
        return
    if panel.quantity.log:
        axis.set_yscale("log")
    limits = panel.view()
    if panel.quantity.log or (panel.quantity.top is not None and axis.get_ylim()[1] > panel.quantity.top):
        axis.set_ylim(*limits)
    axis.text(
        0.98,
        0.96,
        literal_text(panel.count()),
        ha="right",
        va="top",
        transform=axis.transAxes,
        color="#888888",
        fontsize=8,
    )
