"""LN section 3.1: summed inputs and gradients of a recurrent layer over its steps, by the size of its weights."""

from __future__ import annotations

from collections.abc import Sequence

from normbench.draw.tables import Entry, value_entry, within
from normbench.papers.claims import Artifact
from normbench.runs.run import Run

ARMS = {"none": "no normalization", "ln": "LayerNorm, eq. 4", "bn": "BatchNorm per step (ours)"}
RADII = (0.5, 0.9, 1.0, 1.1, 1.5)
DRIVES = {"every": "input at every step", "first": "input at the first step alone"}


def explanation(artifact: Artifact, runs: Sequence[Run]) -> list[str]:
    """The sizes of the slopes that a part of LN-H1b compares: the claim has their sign alone."""

    def slope(arm: str, control: str) -> str:
        cell = within(runs, {"arm": arm, "model.radius": 1.5, "model.drive": "first"}, control)
        return value_entry(cell, "", "", "", "magnitude_slope").text()

    if not runs:
        return []
    return [
        "At radius 1.5 with an input at the first step alone the slope of log mean |a| per step is "
        f"{slope('none', '')} without normalization and {slope('ln', '')} with LN under tanh, {slope('none', 'relu')} "
        f"and {slope('ln', 'relu')} under ReLU. 0.02 a step is a factor of 7 over 100 steps; what LN-H1b asks there is "
        "which of the two is closer to 0, by 0.001 a step at least.",
    ]


def table(artifact: Artifact, runs: Sequence[Run]) -> list[Entry]:
    """Slopes of the logarithms, per step."""
    entries = []
    for drive, title in DRIVES.items():
        for arm, name in ARMS.items():
            for radius in RADII:
                cell = within(runs, {"arm": arm, "model.radius": radius, "model.drive": drive})
                entries += [
                    value_entry(cell, f"{title}: slope of log mean |a|", name, f"radius {radius:g}",
                                "magnitude_slope"),
                    value_entry(cell, f"{title}: slope of log ‖dL/dh‖", name, f"radius {radius:g}",
                                "gradient_slope"),
                ]  # fmt: skip
    return entries
