"""Forest plots: effects with their intervals, one plot and scale per unit, turned so that right is as claimed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from normbench.papers import describe

WIDTH = 260.0  # of a row's plot, in CSS pixels; zero is in the middle
Part = Mapping[str, Any]
Row = TypeVar("Row")


@dataclass(frozen=True)
class Mark:
    """One row's plot in pixels: `claimed` is the shaded region; an end that is cut off has an arrow."""

    limit: str
    unit: str
    text: str
    effect: float | None = None
    low: float | None = None
    high: float | None = None
    cut_low: bool = False
    cut_high: bool = False
    claimed: tuple[float, float] | None = None
    paper: float | None = None
    inner: tuple[float, float] | None = None  # the interval of an equivalence test


def limits(parts: Iterable[Part]) -> dict[str, float]:
    """Per axis the value at both ends: a round number beyond most interval ends and all effects."""
    extents: dict[str, list[float]] = {}
    musts: dict[str, list[float]] = {}
    for part in parts:
        if not _has_interval(part):
            continue
        axis, centre, _ = _frame(part)
        ends = [abs(end - centre) for key in ("interval", "prediction") for end in _ends(part, key)]
        must = [abs(part[key] - centre) for key in ("effect", "paper") if part[key] is not None]
        must += [part["within"]] if part["within"] is not None else []
        extents.setdefault(axis, []).append(max([*ends, *must]))
        musts.setdefault(axis, []).extend(must)
    # one hopelessly wide interval must not flatten all others: it is cut, with an arrow
    return {
        axis: _round_up(1.1 * max([min(max(ends), 3 * statistics.median(ends)), *musts[axis]]))
        for axis, ends in extents.items()
    }


def _has_interval(part: Part) -> bool:
    """Whether it is in the plot: computed numbers have no interval, so text is enough."""
    return part["effect"] is not None and part["kind"] != "exact"


def _frame(part: Part) -> tuple[str, float, float]:
    """Name and centre of a part's axis, and -1 where less is claimed; bare sizes are relative to the paper's."""
    if part["kind"] == "size" and part["expect"] is None and part["paper"] is not None:
        return f"{part['unit']} from the paper's number", float(part["paper"]), 1.0
    return str(part["unit"]), 0.0, -1.0 if part["expect"] == "negative" else 1.0


def _ends(part: Part, key: str) -> list[float]:
    """An interval of the part; that of one more run matters for sizes alone."""
    return list(part[key] or ()) if key != "prediction" or part["kind"] == "size" else []


def _round_up(value: float) -> float:
    if not (value > 0 and math.isfinite(value)):
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if step * power >= value * (1 - 1e-9))


def mark(part: Part, scale: Mapping[str, float]) -> Mark | None:
    """The row of one part; None where there is no effect to draw."""
    axis, centre, sign = _frame(part)
    limit = scale.get(axis)
    if limit is None or not _has_interval(part):
        return None

    def x(value: float) -> float:
        share = max(-1.0, min(1.0, sign * (value - centre) / limit))
        return round((1 + share) * WIDTH / 2, 1)

    def span(ends: Sequence[float]) -> tuple[float, float]:
        low, high = sorted(map(x, ends))
        return low, high

    turned = sorted(sign * (end - centre) for end in _ends(part, "interval"))
    claimed = None
    if part["within"] is not None:
        claimed = span((-part["within"], part["within"]))
    elif part["kind"] == "size":
        claimed = span(_ends(part, "prediction")) if _ends(part, "prediction") else None
    elif part["expect"] is not None:
        claimed = (WIDTH / 2, WIDTH)
    ends = span(_ends(part, "interval")) if turned else (None, None)
    return Mark(
        limit=f"±{limit:g}",
        unit=axis,
        text=describe.effect(part),
        effect=x(part["effect"]),
        low=ends[0],
        high=ends[1],
        cut_low=bool(turned) and turned[0] < -limit,
        cut_high=bool(turned) and turned[1] > limit,
        claimed=claimed,
        inner=span(part["tost"]) if part["tost"] else None,
        paper=x(part["paper"]) if part["paper"] is not None else None,
    )


def by_axis(rows: Iterable[tuple[Row, Mark | None]]) -> list[tuple[Mark | None, list[tuple[Row, Mark | None]]]]:
    """Rows that share an axis, each group with one of its marks; last the rows without a mark, under None."""
    groups: dict[str, list[tuple[Row, Mark | None]]] = {}
    for row, mark in rows:
        groups.setdefault(mark.unit if mark else "", []).append((row, mark))
    return [(own[0][1], own) for _, own in sorted(groups.items(), key=lambda group: not group[0])]
