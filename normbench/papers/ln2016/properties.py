"""Properties of normalizers: those that an overview lists, and those computed for all normalizers."""

from __future__ import annotations

from collections.abc import Sequence

from normbench.draw.tables import Entry
from normbench.papers.claims import Artifact
from normbench.papers.ln2016.table1 import format_deviation
from normbench.runs.run import Run

COLUMNS = {
    "others": "same output whatever the other samples, training",
    "others_evaluation": "the same in evaluation",
    "others_gradient": "no gradient at other samples",
    "modes": "training and evaluation agree",
    "channels": "no gradient at other channels",
    "scaled": "same when inputs are scaled",
    "shifted": "same when a sample is shifted",
}
COUNTS = {"learned_tensors": "parameters", "learned": "learned values", "kept": "values of statistics"}
FIRST = ("none", "batch", "layer", "rms", "instance", "group", "weight", "spectral")


def table(artifact: Artifact, runs: Sequence[Run]) -> list[Entry]:
    """Yes or no with the number behind it, then counts; the overview's methods first, then all others."""
    by_arm = {run.arm: run for run in runs if not run.control}
    entries = []
    for arm in [*FIRST, *sorted(set(by_arm) - set(FIRST))]:
        record, overview = by_arm[arm].records[-1] if arm in by_arm else {}, artifact.reference.get(arm, {})
        for key, name in (COLUMNS | COUNTS).items():
            value = float(record[key]) if key in record else None
            paper = {True: "yes", False: "no"}[overview[key]] if key in overview else "–" if key in COLUMNS else ""
            text = format_deviation(value) if key in COLUMNS or value is None else f"{value:g}"
            group = "Properties" if key in COLUMNS else "Parameters and statistics, 6 channels"
            entries.append(Entry(group, arm, name, "", int(value is not None), value, paper=paper, literal=text))
    return entries
