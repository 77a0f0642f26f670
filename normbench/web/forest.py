"""Forest plots: effects and their intervals on signed axes, one plot per unit and side that is better."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from normbench.draw.panels import linear_ticks, log_ticks
from normbench.draw.tables import one_format
from normbench.draw.text import minus
from normbench.papers.parts import PartResult

Span = tuple[float, float]
SIDES = {"lower": ("better", "worse"), "higher": ("worse", "better"), "": ("lower", "higher")}
MOST_TICKS = 5


@dataclass(frozen=True)
class Effect:
    """An effect without a claim: what a plot reads of a part."""

    effect: float | None
    unit: str
    better: str
    interval: Span | None
    kind: str = "direction"
    expect: str | None = None
    paper: float | None = None
    within: float | None = None
    prediction: Span | None = None
    tost: Span | None = None


Part = PartResult | Effect


@dataclass(frozen=True)
class Row:
    """One effect: its places in per cent of the axis, of spans (start, width); an end that is cut off has an arrow."""

    item: Any
    part: Part
    value: str = ""
    effect: float | None = None
    interval: Span | None = None
    cut: tuple[bool, bool] = (False, False)
    claimed: Span | None = None
    inner: Span | None = None  # the interval of an equivalence test
    paper: float | None = None


@dataclass(frozen=True)
class Plot:
    """Rows that share an axis, with its ticks; without ticks, rows that words alone describe."""

    unit: str
    sides: tuple[str, str]
    zero: float
    ticks: Sequence[tuple[float, str]]
    rows: Sequence[Row]


def plots(items: Iterable[tuple[Any, Part]]) -> list[Plot]:
    """The items with their parts by axis; last those whose part has no number with a spread."""
    groups: dict[tuple[str, str, bool], list[tuple[Any, Part]]] = {}
    for item, part in items:
        groups.setdefault(_axis(part), []).append((item, part))
    return [
        _plot(*axis, rows) if axis[0] else Plot("", SIDES[""], 0.0, (), [Row(item, part) for item, part in rows])
        for axis, rows in sorted(groups.items(), key=lambda group: not group[0][0])
    ]


def _axis(part: Part) -> tuple[str, str, bool]:
    """Unit, better side, and whether it is a logarithm; sizes lie beside the paper's number."""
    if part.effect is None or part.kind == "exact":
        return "", "", False
    log = part.unit == "log ratio"
    unit = "ratio" if log else str(part.unit)
    if _centre(part):
        return f"{unit} {'to' if log else 'from'} the paper's number", part.better, log
    return unit, part.better, log


def _centre(part: Part) -> float:
    """The zero of its axis."""
    return float(part.paper) if part.kind == "size" and part.expect is None and part.paper else 0.0


def _numbers(part: Part) -> list[float]:
    """The effect and, if it has one, both ends of its interval, from the zero of its axis."""
    return [value - _centre(part) for value in (part.effect, *(part.interval or ()))]


def _plot(unit: str, better: str, log: bool, items: Sequence[tuple[Any, Part]]) -> Plot:
    low, high = _range([part for _, part in items])
    scale = math.exp if log else float
    estimates = (map(scale, _numbers(part)) for _, part in items)
    form = one_format((effect, (ends[0], ends[1]) if ends else None) for effect, *ends in estimates)

    def number(value: float) -> str:
        return form(scale(value))

    def x(value: float) -> float:
        return round(100 * (min(max(value, low), high) - low) / (high - low), 2)

    def span(start_value: float, end_value: float) -> Span:
        start, end = x(start_value), x(end_value)
        return start, round(end - start, 2)

    def row(item: Any, part: Part) -> Row:
        effect, *ends = _numbers(part)
        prediction = [end - _centre(part) for end in part.prediction or ()]
        claimed = None
        if part.within is not None:
            claimed = span(-part.within, part.within)
        elif part.kind == "size":
            claimed = span(*prediction) if prediction else None
        elif part.expect is not None:
            claimed = span(0.0, high) if part.expect == "positive" else span(low, 0.0)
        return Row(
            item,
            part,
            number(effect) + (f" [{', '.join(map(number, ends))}]" if ends else ""),
            x(effect),
            span(*ends) if ends else None,
            (ends[0] < low, ends[1] > high) if ends else (False, False),
            claimed,
            span(*part.tost) if part.tost else None,
            None if part.paper is None else x(part.paper - _centre(part)),
        )

    ticks = log_ticks(math.exp(low), math.exp(high), MOST_TICKS) if log else linear_ticks(low, high, MOST_TICKS)
    places = [(x(math.log(tick) if log else tick), minus(f"{tick:.8g}")) for tick in ticks]
    labelled = [(place, text) for place, text in places if 5 <= place <= 95]  # others would be cut at the edge
    return Plot(unit, SIDES[better], x(0.0), labelled, [row(item, part) for item, part in items])


def _range(parts: Sequence[Part]) -> Span:
    """Both ends of the axis: zero, all effects and what they are compared with lie inside.

    One hopelessly wide interval must not flatten all others: it is cut.
    """
    inside, ends = [0.0], [0.0]
    for part in parts:
        inside += [value - _centre(part) for value in (part.effect, part.paper) if value is not None]
        inside += [] if part.within is None else [-part.within, part.within]
        also = part.prediction if part.kind == "size" else ()
        ends += [end - _centre(part) for end in (*(part.interval or ()), *(also or ()))]
    far = 3 * statistics.median(max(abs(end) for end in (*(part.interval or ()), part.effect)) for part in parts)
    low, high = (edge([*inside, *(min(max(end, -far), far) for end in ends)]) for edge in (min, max))
    room = 0.07 * (high - low) or 1.0
    return low - room, high + room
