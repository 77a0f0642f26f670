"""Lines of pen strokes, and the window's path along their text, as SVG files."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

import numpy as np

INK, PAPER, GREY = "#111", "#fff", "#777"
HEIGHT, MARGIN, CAPTION = 60.0, 12.0, 18.0  # of a line, around it, and of the text above it
LONG = 60.0  # how far from the middle line ink is shown, in heights of a line; a pen that is far off has run away
CELL = 9.0  # side of a letter's row in the picture of a window
MOST = 400  # points in it


class Line(NamedTuple):
    """Points (n, 3), offsets in the data's own units with y downwards and the pen's lifts, and the text that was meant.

    `window` (n, U): the weight of each letter at each point.
    """

    points: np.ndarray
    text: str
    window: np.ndarray


def lines(written: Sequence[Line]) -> bytes:
    """One below the other, each at the height of a line, the text above in grey."""
    parts, top, width = [], MARGIN, 0.0
    for line in written:
        strokes, wide = _scaled(line.points)
        parts.append(_text(MARGIN, top + CAPTION * 0.7, line.text, GREY))
        paths = "".join(f"<path d='{_path(stroke)}'/>" for stroke in strokes)
        parts.append(f"<g transform='translate({MARGIN:g} {top + CAPTION:g})'>{paths}</g>")
        top += CAPTION + HEIGHT + MARGIN
        width = max(width, wide, 7.0 * len(line.text))
    style = f"<g fill='none' stroke='{INK}' stroke-width='1.4' stroke-linecap='round' stroke-linejoin='round'>"
    return _svg(width + 2 * MARGIN, top, style + "".join(parts) + "</g>")


def path(line: Line) -> bytes:
    """How much each letter (downwards) counts at each point (to the right): the darker the more, of its column."""
    weights = line.window[:: max(1, -(-len(line.window) // MOST))]
    weights = weights / np.maximum(weights.max(1, keepdims=True), 1e-12)
    step, left = max(1.0, min(4.0, 800 / max(1, len(weights)))), MARGIN + 14
    cells = []
    for column, values in enumerate(weights):
        for row in np.flatnonzero(values >= 0.05):
            x, y, shade = left + column * step, MARGIN + row * CELL, values[row]
            cells.append(
                f"<rect x='{x:.1f}' y='{y:g}' width='{step:.1f}' height='{CELL:g}' fill-opacity='{shade:.2f}'/>"
            )
    letters = "".join(_text(MARGIN, MARGIN + (i + 0.8) * CELL, letter, GREY) for i, letter in enumerate(line.text))
    height = 2 * MARGIN + CELL * len(line.text)
    return _svg(left + step * len(weights) + MARGIN, height, letters + f"<g fill='{INK}'>{''.join(cells)}</g>")


def _scaled(points: np.ndarray) -> tuple[list[np.ndarray], float]:
    """Strokes (n, 2) in the picture's units, and how wide they are; what is far off is left at the edge."""
    places = np.cumsum(np.nan_to_num(points[:, :2].astype(np.float64)), 0)
    ink = places[:-1] if len(places) > 1 else places
    low, high = np.percentile(ink[:, 1], [2, 98])  # of the letters; a stray stroke shall not make them small
    unit = HEIGHT / max(high - low, 1e-6)
    places = (places - [places[:, 0].min(), low]) * unit
    places[:, 1] = places[:, 1].clip(-CAPTION, HEIGHT + MARGIN)
    places[:, 0] = places[:, 0].clip(0, LONG * HEIGHT)
    ends = np.flatnonzero(points[:, 2] > 0.5) + 1
    strokes = [part for part in np.split(places, ends) if len(part)]
    return strokes, float(places[:, 0].max())


def _path(stroke: np.ndarray) -> str:
    """A stroke of one point is a dot."""
    moves = [f"{x:.1f} {y:.1f}" for x, y in (stroke if len(stroke) > 1 else np.repeat(stroke, 2, 0))]
    return f"M{moves[0]}L{' '.join(moves[1:])}"


def _text(x: float, y: float, text: str, colour: str) -> str:
    printable = escape("".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text))
    return (
        f"<text x='{x:g}' y='{y:g}' fill='{colour}' stroke='none' font-family='sans-serif' font-size='10' "
        f"xml:space='preserve'>{printable}</text>"
    )


def _svg(width: float, height: float, inside: str) -> bytes:
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width:.0f} {height:.0f}' width='{width:.0f}' "
        f"height='{height:.0f}'><rect width='100%' height='100%' fill='{PAPER}'/>{inside}</svg>\n"
    ).encode()
