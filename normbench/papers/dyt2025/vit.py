"""DyT Fig. 5, and Fig. 8 on the right: alpha beside the inverse deviation of the inputs, at the end of training."""

from __future__ import annotations

from collections.abc import Sequence

from normbench.draw.panels import Look, Panel, Quantity
from normbench.draw.style import COLOURS
from normbench.papers import default_artifact
from normbench.papers.claims import Artifact
from normbench.papers.dyt2025 import sites
from normbench.runs.run import Run

ALPHA = Quantity("alpha, 1/std of the input", "train", "eval", "alpha", log=True, x="Site, by depth")


def panels(artifact: Artifact, runs: Sequence[Run]) -> list[Panel]:
    curves, paths = default_artifact.panels(artifact, runs), sites.paths(runs, "dyt")
    if not paths:
        return curves
    lines = [
        sites.line(runs, "dyt", Look("alpha", COLOURS["dyt"]), [(i, f"{p}.alpha") for i, p in enumerate(paths, 1)]),
        sites.line(
            runs,
            "dyt",
            Look("1/std", "#888888"),
            [(i, f"{p}.input_std") for i, p in enumerate(paths, 1)],
            lambda std: 1 / std,
        ),
    ]
    return [*curves, Panel(curves[0].column, ALPHA, lines, (), [*map(sites.label, paths)])]
