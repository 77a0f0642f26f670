"""Words beside a figure: which seeds it draws, which of its lines coincide, what lines and bands are."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from normbench.draw.panels import Line, Panel
from normbench.draw.text import ranges

ONE_LINE = 0.015  # of an axis' height, about the width of a line: curves that are nowhere further apart look like one


def of_figure(panels: Sequence[Panel]) -> str:
    """What the axes' names mean, what lines and bands are, and which seeds are drawn."""
    banded = [panel for panel in panels for line in panel.lines if line.band()]
    method = []
    if any(panel.quantity.median for panel in panels):
        method = ["Median over seeds; each seed is a thin line."]
    elif banded:
        log = " (geometric on a logarithmic axis)" if any(panel.quantity.log for panel in banded) else ""
        cut = any(panel.quantity.log or panel.quantity.top is not None for panel in banded)
        beyond = ", which may reach beyond the axes" if cut else ""
        method = [f"Mean over seeds{log} with its 95 % interval{beyond}."]
    seeds, same = describe_seeds(panels), coinciding_everywhere(panels)
    sentences = (f"{text}." for text in (seeds and f"S{seeds[1:]}", same) if text)
    notes = dict.fromkeys(panel.note for panel in panels if panel.note)
    return " ".join([*notes, *method, *sentences])


def of_panel(panel: Panel) -> str:
    """`seeds 1–5; LN: 6–10; BN and LN coincide`; empty where nothing was run."""
    return "; ".join(text for text in (describe_seeds([panel]), coinciding(panel)) if text)


def coinciding(panel: Panel) -> str:
    """`BN, WN and LN coincide`: lines that nobody can tell apart; empty without any."""
    groups: list[list[Line]] = []
    for line in panel.lines:
        same = next((group for group in groups if _look_alike(group[0], line, panel)), None)
        if same is None:
            groups.append([line])
        else:
            same.append(line)
    return "; ".join(
        "all lines coincide"
        if len(group) == len(panel.lines) > 2
        else f"{_enumerate(line.look.name for line in group)} coincide"
        for group in groups
        if len(group) > 1
    )


def coinciding_everywhere(panels: Sequence[Panel]) -> str:
    """`BN and LN coincide in all panels`; empty where it is not the same in all of several panels."""
    notes = {coinciding(panel) for panel in panels}
    return f"{text} in all panels" if len(panels) > 1 and len(notes) == 1 and (text := notes.pop()) else ""


def _look_alike(a: Line, b: Line, panel: Panel) -> bool:
    if [p.x for p in a.points] != [p.x for p in b.points]:
        return False
    scale = math.log if panel.quantity.log else float
    low, high = panel.view() if panel.quantity.log else (min(panel.means()), max(panel.means()))
    height = scale(high) - scale(low)
    means = [[scale(p.mean) for p in line.points if p.mean is not None] for line in (a, b)]
    return all(abs(x - y) <= ONE_LINE * height for x, y in zip(*means, strict=True))


def describe_seeds(panels: Sequence[Panel]) -> str:
    """`seeds 1–10; batch size 1: 1–5; LN: 2 diverged`, first those of most lines; empty without any."""
    lines = {(panel.column, line.look.name): line for panel in panels for line in panel.lines}
    drawn = {place: _ranges([seed for seed, _, _ in line.seeds]) for place, line in lines.items() if line.seeds}
    if not drawn:
        return ""
    most = Counter(drawn.values()).most_common(1)[0][0]
    others = [f"{where}: {text}" for text, where in _places(drawn).items() if text != most]
    counts = {place: f"{line.diverged} diverged" if line.diverged else "" for place, line in lines.items()}
    diverged = [f"{where}: {text}" for text, where in _places(counts).items() if text]
    return "; ".join([f"seed{'' if most.isdecimal() else 's'} {most}", *others, *diverged])


def _places(texts: Mapping[tuple[str, str], str]) -> dict[str, str]:
    """Where each text holds, of texts by column and name: a whole column, all of a name, or a name in a column."""
    by_text: dict[str, list[str]] = {}
    for (column, name), text in texts.items():
        if len({other for (at, _), other in texts.items() if at == column}) == 1:
            where = column
        elif len({other for (_, of), other in texts.items() if of == name}) == 1:
            where = name
        else:
            where = f"{name} ({column})"
        by_text.setdefault(text, []).append(where)
    return {text: _enumerate(dict.fromkeys(places)) for text, places in by_text.items()}


def _ranges(seeds: Sequence[int]) -> str:
    """`1–5, 7` of 1, 2, 3, 4, 5, 7."""
    return ", ".join(f"{run[0]}–{run[-1]}" if len(run) > 1 else str(run[0]) for run in ranges(sorted(set(seeds))))


def _enumerate(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
