"""DyT Fig. 2: from inputs to outputs of LN at sites of different depth; and how much of an S each of them is."""

from __future__ import annotations

from collections.abc import Sequence

from normbench.draw.panels import Look, Panel, Quantity, Reference
from normbench.draw.style import COLOURS
from normbench.papers.claims import Artifact
from normbench.papers.dyt2025 import sites
from normbench.runs.run import Run

PLACES = {"half": 0.5, "1": 1.0, "2": 2.0, "4": 4.0, "8": 8.0}  # of normbench.norms.curves, which needs torch
COLUMN = "LN in a small vision Transformer"
SHADES = ("#9ecae1", "#4292c6", "#2171b5", "#08306b")  # from the first site to the last
MAP = Quantity("LN output", "train", "eval", "out", x="Input, in deviations")
SHARE = Quantity("Beyond a line", "train", "eval", "beyond_line", x="Site, by depth")
NOTE = "Means of both sides. The dashed line is LN where all tokens have the same mean and deviation."


def panels(artifact: Artifact, runs: Sequence[Run]) -> list[Panel]:
    paths = sites.paths(runs, "ln")
    if not paths:
        return []
    shown = [paths[round(place * (len(paths) - 1) / 3)] for place in range(4)]
    curves = [
        sites.line(
            runs, "ln", Look(sites.label(path), shade), [(x, f"{path}.out_{name}") for name, x in PLACES.items()]
        )
        for path, shade in zip(shown, SHADES, strict=True)
    ]
    same = Reference("equal tokens", [(x, x) for x in PLACES.values()], "dash")
    share = sites.line(
        runs, "ln", Look("LN", COLOURS["layer"]), [(i, f"{p}.beyond_line") for i, p in enumerate(paths, 1)]
    )
    return [Panel(COLUMN, MAP, curves, [same], (), NOTE), Panel(COLUMN, SHARE, [share], (), [*map(sites.label, paths)])]
