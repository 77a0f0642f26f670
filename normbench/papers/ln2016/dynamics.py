"""LN section 3.1: summed inputs and gradients of a recurrent layer over its steps, by the size of its weights."""

from __future__ import annotations

from collections.abc import Sequence

from normbench.draw.tables import Entry, value_entry, within
from normbench.papers.claims import Artifact
from normbench.runs.run import Run

ARMS = {"none": "no normalization", "ln": "LayerNorm, eq. 4", "bn": "BatchNorm per step (ours)"}
RADII = (0.5, 0.9, 1.0, 1.1, 1.5)
DRIVES = {"every": "input at every step", "first": "input at the first step alone"}


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
