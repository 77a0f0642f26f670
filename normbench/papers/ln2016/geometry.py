"""LN section 5.2: what a growing weight matrix does to a gradient step, and how exact the paper's equations are."""

from __future__ import annotations

from collections.abc import Sequence

from normbench.draw.panels import Look, Panel, Quantity
from normbench.draw.panels import panels as all_panels
from normbench.draw.style import COLOURS
from normbench.draw.tables import Entry
from normbench.papers.claims import Artifact
from normbench.runs.record import RunRecord

ARMS = {
    "none": Look("Standard", COLOURS["none"]),
    "batch": Look("BatchNorm", COLOURS["batch"]),
    "weight": Look("WeightNorm", COLOURS["weight"]),
    "layer": Look("LayerNorm", COLOURS["layer"]),
}
FAMILIES = ("gaussian", "bernoulli", "categorical")
X = "multiple of the weight matrix"
QUANTITIES = (
    Quantity("Gradient by w", "probe", "exact", "all_gradient", log=True, x=X),
    Quantity("Curvature along w", "probe", "exact", "all_curvature", log=True, x=X),
    Quantity("Angle of a gradient step", "probe", "exact", "all_angle", log=True, x=X),
)
NUMBERS = {
    "eq13": "eq. 13 off by",
    "eq12": "eq. 12 off by",
    "cross": "cross terms that eq. 13 lacks",
    "gain_data": "gain metric: inputs × 2.5",
    "gain_weights": "gain metric: weights × 2.5",
    "eq32": "eq. 32 off by",
    "twice_one_curvature": "curvature, one unit doubled",
    "twice_all_curvature": "curvature, matrix doubled",
}


def panels(artifact: Artifact, runs: Sequence[RunRecord]) -> list[Panel]:
    """Ours: the paper has no figure. Each quantity is divided by its value at the initial weights."""
    return all_panels(runs, ARMS, {family: {"model.family": family} for family in FAMILIES}, QUANTITIES)


def table(artifact: Artifact, runs: Sequence[RunRecord]) -> list[Entry]:
    """Relative deviations and ratios, three digits; an equation has entries where it applies."""
    entries = []
    for family in FAMILIES:
        for arm in ARMS:
            found = [run for run in runs if run.matches({"arm": arm, "model.family": family})]
            numbers = {key: value for run in found for record in run.records for key, value in record.items()}
            for key, name in NUMBERS.items():
                value = float(numbers[key]) if key in numbers else None
                text = "–" if value is None else ("0" if value <= 1e-9 else f"{value:.3g}")
                entries.append(Entry(family, arm, name, "", len(found), value, literal=text))
    return entries
