"""Panels as Plotly figures: dicts, so that a page needs no import of plotly.

Every trace carries `meta`: the arm, its role (mean, band, seed) and its colour on a light and on a dark page; the
page's script shows, hides and colours traces by it.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import Any

from normbench.draw.panels import Line, Panel, Reference, log_ticks
from normbench.draw.style import on_dark
from normbench.draw.text import minus, visible

Figure = dict[str, Any]
MOST_DECADES = 7  # that have a tick each
ROLES = ("reference", "band", "seed", "mean")


def drawing(panel: Panel, note: str) -> dict[str, Any]:
    """One panel as the templates' macro takes it, with a note beside its title."""
    return {
        "title": panel.column,
        "quantity": panel.quantity.name,
        "note": note,
        "figure": figure(panel) if panel.lines else None,
    }


def figure(panel: Panel) -> Figure:
    """One panel: per arm its mean, the 95 % interval, and each seed (hidden until asked for)."""
    traces = point_traces if panel.categories else line_traces
    data = [trace for line in panel.lines for trace in traces(line)]
    mode = "markers" if panel.categories else "lines"
    data += [{**reference_trace(reference), "mode": mode} for reference in panel.references if panel.lines]
    if panel.quantity.median:  # of which each seed is a part: shown and hidden with it
        data = [_shown(trace) if trace["meta"]["role"] == "seed" else trace for trace in data]
    data.sort(key=lambda trace: ROLES.index(trace["meta"]["role"]))  # later traces are on top
    axis: dict[str, Any] = {"title": {"text": label(panel.quantity.name)}, "zeroline": False, "exponentformat": "power"}
    if panel.quantity.log:
        axis["type"] = "log"
    if panel.lines:
        low, high = panel.view()
        if panel.quantity.log:
            axis |= log_axis(low, high)
        elif panel.quantity.top is not None and high > 0:
            axis["range"] = [low, high]
    return {
        "data": data,
        "layout": {
            "xaxis": {"title": {"text": label(panel.quantity.x)}, "zeroline": False, **_x_axis(panel)},
            "yaxis": axis,
            **bare(64, 12, 8, 44),
            "hovermode": "x unified",
        },
    }


def log_axis(low: float, high: float) -> dict[str, Any]:
    """A logarithmic axis, below two decades with ticks where Plotly would have one label, or none."""
    axis = {"type": "log", "range": [math.log10(low), math.log10(high)]}
    if high < 100 * low:
        ticks = log_ticks(low, high)
        return axis | _ticks(ticks, [minus(f"{tick:.6g}") for tick in ticks])
    return axis | {"dtick": math.ceil(math.log10(high / low) / MOST_DECADES)}


def _x_axis(panel: Panel) -> dict[str, Any]:
    """Names of places; or a tick at each epoch where there are so few that Plotly would label halves."""
    if panel.categories:
        ticks = _ticks(range(1, len(panel.categories) + 1), list(map(label, panel.categories)))
        title = {"text": label(panel.quantity.x), "standoff": 8}  # below the names, however long they are
        return {**ticks, "tickangle": -90, "automargin": True, "title": title}
    if panel.quantity.log_x:
        return {"type": "log", "dtick": 1}
    ends = [point.x for line in panel.lines for point in line.points]
    few = panel.quantity.over_time and panel.quantity.clock == "epoch" and ends and 1 <= max(ends) - min(ends) <= 5
    return {"dtick": 1} if few else {}


def _shown(trace: dict[str, Any]) -> dict[str, Any]:
    """A seed's curve as the page shows a mean, but for hovering, where there would be too many."""
    kept = {name: value for name, value in trace.items() if name not in ("visible", "hovertemplate")}
    return {**kept, "hoverinfo": "skip", "meta": {**trace["meta"], "role": "mean"}}


def _ticks(places: Sequence[float], names: Sequence[str]) -> dict[str, Any]:
    return {"tickmode": "array", "tickvals": list(places), "ticktext": names}


def bare(left: int, right: int, top: int, bottom: int) -> dict[str, Any]:
    """A layout without legend and background, with these margins in pixels."""
    return {
        "hovermode": "closest",
        "showlegend": False,
        "margin": {"l": left, "r": right, "t": top, "b": bottom},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
    }


def label(text: str) -> str:
    """Text that Plotly displays unchanged: it parses names as HTML and `%{...}` as a template."""
    return html.escape(visible(text), quote=False).replace("%{", "%&#123;")


def reference_trace(reference: Reference) -> dict[str, Any]:
    """A curve from published numbers."""
    return {
        "x": [epoch for epoch, _ in reference.points],
        "y": [value for _, value in reference.points],
        "name": label(reference.name),
        "type": "scatter",
        "mode": "lines",
        "line": {"width": 1, "dash": reference.dash},
        "hovertemplate": "%{y:.3~g}",
        "meta": {**meta(reference.name, reference.colour), "role": "reference"},
    }


def meta(arm: str, colour: str) -> dict[str, Any]:
    """The arm and colours of a trace, which the page's script reads."""
    return {"arm": arm, "light": colour, "dark": on_dark(colour)}


def line_traces(line: Line) -> list[dict[str, Any]]:
    """Band, mean and seeds of one arm; hovering over a mean displays its interval and n."""
    style, x = line.look, [point.x for point in line.points]
    arm_meta = meta(line.arm, style.colour)
    dash = style.line_dash
    traces: list[dict[str, Any]] = []
    if ends := line.band():
        traces.append(
            {
                "x": [e for e, _, _ in ends] + [e for e, _, _ in reversed(ends)],
                "y": [low for _, low, _ in ends] + [high for _, _, high in reversed(ends)],
                "type": "scatter",
                "mode": "lines",
                "line": {"width": 0},
                "fill": "toself",
                "opacity": 0.13,
                "hoverinfo": "skip",
                "meta": {**arm_meta, "role": "band"},
            }
        )
    traces.append(
        {
            "x": x,
            "y": [point.mean for point in line.points],
            "name": label(style.name),
            "type": "scatter",
            "mode": "lines" if len(x) > 1 else "markers",
            "line": {"width": 2.2 if style.in_paper else 1.5, "dash": dash},
            "customdata": [_hover(point.mean, point.interval, point.n, point.diverged) for point in line.points],
            "hovertemplate": "%{customdata}",
            "meta": {**arm_meta, "role": "mean"},
        }
    )
    for seed, run, curve in line.seeds:
        traces.append(
            {
                "x": [epoch for epoch, _ in curve],
                "y": [value if math.isfinite(value) else None for _, value in curve],  # a gap: it diverged
                "name": label(f"{style.name} seed {seed} ({run})"),
                "type": "scatter",
                "mode": "lines",
                "line": {"width": 0.8, "dash": dash},
                "opacity": 0.6,
                "visible": False,
                "hovertemplate": "%{y:.3~g}",
                "meta": {**arm_meta, "role": "seed"},
            }
        )
    return traces


def point_traces(line: Line) -> list[dict[str, Any]]:
    """Mean and 95 % interval of one arm at places that no line joins."""
    (mean,) = (trace for trace in line_traces(line) if trace["meta"]["role"] == "mean")
    bands = {x: (low, high) for x, low, high in line.band()}
    ends = [(p.mean, *bands.get(p.x, (p.mean, p.mean))) for p in line.points if p.mean is not None]
    error = {"array": [high - at for at, _, high in ends], "arrayminus": [at - low for at, low, _ in ends]}
    return [{**mean, "mode": "markers", "error_y": {"type": "data", "thickness": 1, "width": 0, **error}}]


def _hover(mean: float | None, interval: tuple[float, float] | None, n: int, diverged: int) -> str:
    text = f"{mean:.3g}"
    if interval is not None:
        text += f" [{interval[0]:.3g}, {interval[1]:.3g}]"
    lost = f", {diverged} diverged" if diverged else ""
    return f"{minus(text)}, n = {n}{lost}"
