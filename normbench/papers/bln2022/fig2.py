"""BLN Fig. 2: the weights of mini-batch and feature normalization over the size of the mini-batch."""

from __future__ import annotations

from collections.abc import Sequence

from normbench.draw.panels import Line, Look, Panel, Quantity
from normbench.draw.style import COLOURS
from normbench.draw.tables import Entry
from normbench.papers.claims import Artifact
from normbench.runs.record import RunRecord
from normbench.stats.series import aggregate

LINES = {
    "batch": Look("mini-batch normalization", COLOURS["batch"]),
    "feature": Look("feature normalization", COLOURS["layer"]),
}
NUMBERS = {
    "formula": "off the formula",
    "smallest": "smallest weight",
    "largest": "largest weight",
    "single": "m = 1: off 0.9999 LN/√d",
}


def panels(artifact: Artifact, runs: Sequence[RunRecord]) -> list[Panel]:
    """One panel as in the paper; `code` and `paper` forms have the same weights, so the panel has the first alone."""
    own = [run for run in runs if run.arm == "code"]
    lines = [Line(metric, look, aggregate(own, "probe", "exact", metric), [], 0) for metric, look in LINES.items()]
    quantity = Quantity("Weight", "probe", "exact", "batch", x="Size of the mini-batch")
    return [Panel("eq. 16", quantity, [line for line in lines if line.points])]


def table(artifact: Artifact, runs: Sequence[RunRecord]) -> list[Entry]:
    entries = []
    for arm in ("code", "paper"):
        found = [run for run in runs if run.arm == arm]
        numbers = {key: value for run in found for record in run.records for key, value in record.items()}
        for key, name in NUMBERS.items():
            value = float(numbers[key]) if key in numbers else None
            text = "" if value is None else f"{value:.4g}" if abs(value) > 1e-9 else "0"
            entries.append(Entry("weights, m = 1 to 50", arm, name, "", len(found), value, literal=text))
    return entries
