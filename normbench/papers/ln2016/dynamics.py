"""LN section 3.1: summed inputs and gradients of a recurrent layer over its steps, by the size of its weights."""

from __future__ import annotations

from collections.abc import Sequence

from normbench.draw.panels import Look, Panel, Quantity
from normbench.draw.panels import panels as all_panels
from normbench.draw.style import COLOURS
from normbench.draw.tables import Entry, value_entry, within
from normbench.papers.claims import Artifact
from normbench.runs.record import RunRecord

ARMS = {
    "none": Look("no normalization", COLOURS["none"]),
    "ln": Look("LayerNorm, eq. 4", COLOURS["layer"]),
    "bn": Look("BatchNorm per step (ours)", COLOURS["batch"], in_paper=False),
}
QUANTITIES = (
    Quantity("Mean |a|", "probe", "exact", "magnitude", log=True, x="Step", floor=1e-300),
    Quantity("‖dL/dh‖", "probe", "exact", "gradient", log=True, x="Step", floor=1e-300),
)
RADII = (0.5, 0.9, 1.0, 1.1, 1.5)
RADII_IN_FIGURE = (0.5, 1.0, 1.5)
DRIVES = {"every": "input at every step", "first": "input at the first step alone"}


def panels(artifact: Artifact, runs: Sequence[RunRecord]) -> list[Panel]:
    """Both quantities at three of the spectral radii; the paper has no such figure."""
    columns = {
        f"radius {radius:g}, {title}": {"model.radius": radius, "model.drive": drive}
        for drive, title in (("first", "first input alone"), ("every", "inputs at every step"))
        for radius in RADII_IN_FIGURE
    }
    return all_panels(runs, ARMS, columns, QUANTITIES)


def explanation(artifact: Artifact, runs: Sequence[RunRecord]) -> list[str]:
    """The sizes of the slopes that a part of LN-H1b compares: the claim has their sign alone."""

    def slope(arm: str, control: str) -> str:
        found = within(runs, {"arm": arm, "model.radius": 1.5, "model.drive": "first"}, control)
        return value_entry(found, "", "", "", "magnitude_slope").text()

    if not runs:
        return []
    return [
        "At radius 1.5 with an input at the first step alone the slope of log mean |a| per step is "
        f"{slope('none', '')} without normalization and {slope('ln', '')} with LN under tanh, {slope('none', 'relu')} "
        f"and {slope('ln', 'relu')} under ReLU. 0.02 a step is a factor of 7 over 100 steps; what LN-H1b asks there is "
        "which of the two is closer to 0, by 0.001 a step at least.",
    ]


def table(artifact: Artifact, runs: Sequence[RunRecord]) -> list[Entry]:
    """Slopes of the logarithms, per step."""
    entries = []
    for drive, title in DRIVES.items():
        for arm, look in ARMS.items():
            for radius in RADII:
                found = within(runs, {"arm": arm, "model.radius": radius, "model.drive": drive})
                entries += [
                    value_entry(found, f"{title}: slope of log mean |a|", look.name, f"radius {radius:g}",
                                "magnitude_slope"),
                    value_entry(found, f"{title}: slope of log ‖dL/dh‖", look.name, f"radius {radius:g}",
                                "gradient_slope"),
                ]  # fmt: skip
    return entries
