"""The forest plot: every effect with its interval on one scale per unit, turned so that right is as claimed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from normbench.papers.text import signed

WIDTH = 260.0  # of a row's plot, in CSS pixels; zero lies in the middle
Part = Mapping[str, Any]


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
    """Per unit the value at both ends of the axis: a round number beyond most interval ends and all effects."""
    extents: dict[str, list[float]] = {}
    musts: dict[str, list[float]] = {}
    for part in parts:
        ends = [abs(end) for end in part["interval"] or () if math.isfinite(end)]
        must = [abs(part[key]) for key in ("effect", "within", "paper") if part[key] is not None]
        if not ends and part["effect"] is None:
            continue
        extents.setdefault(part["unit"], []).append(max([*ends, *must]))
        musts.setdefault(part["unit"], []).extend(must)
    # one hopelessly wide interval must not flatten all others: it is cut, with an arrow
    return {
        unit: _round_up(1.1 * max([min(max(ends), 3 * statistics.median(ends)), *musts[unit]]))
        for unit, ends in extents.items()
    }


def _round_up(value: float) -> float:
    if not (value > 0 and math.isfinite(value)):
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if step * power >= value * (1 - 1e-9))


def mark(part: Part, scale: Mapping[str, float]) -> Mark | None:
    """The row of one part; None where there is no effect to draw."""
    limit = scale.get(part["unit"])
    if limit is None or part["effect"] is None:
        return None
    sign = -1.0 if part["expect"] == "negative" else 1.0

    def x(value: float) -> float:
        share = max(-1.0, min(1.0, sign * value / limit))
        return round((1 + share) * WIDTH / 2, 1)

    low, high = sorted(sign * end for end in part["interval"]) if part["interval"] else (None, None)
    within = part["within"]
    claimed = None
    if within is not None:
        claimed = (x(-within), x(within))
    elif part["expect"] is not None:
        claimed = (WIDTH / 2, WIDTH)
    return Mark(
        limit=f"±{limit:g}",
        unit=part["unit"],
        text=effect_text(part),
        effect=x(part["effect"]),
        low=None if low is None else x(sign * low),
        high=None if high is None else x(sign * high),
        cut_low=low is not None and low < -limit,
        cut_high=high is not None and high > limit,
        claimed=claimed,
        inner=(x(part["tost"][0]), x(part["tost"][1])) if part["tost"] else None,
        paper=x(part["paper"]) if part["paper"] is not None else None,
    )


def effect_text(part: Part) -> str:
    """`0.183 [0.0461, 0.319] log ratio`, as it was measured (not turned)."""
    if part["effect"] is None:
        return ""
    interval = f" [{signed(part['interval'][0])}, {signed(part['interval'][1])}]" if part["interval"] else ""
    return f"{signed(part['effect'])}{interval} {part['unit']}"
