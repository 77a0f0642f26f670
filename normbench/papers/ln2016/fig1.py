"""LN Fig. 1: recall of image retrieval on the validation set against updates, with LN in the encoder and without."""

from __future__ import annotations

from collections.abc import Sequence

from normbench.curves.series import area, at_epoch, series
from normbench.papers.claims import Artifact
from normbench.papers.panels import Look, Panel, Quantity
from normbench.papers.panels import panels as all_panels
from normbench.papers.style import COLOURS
from normbench.papers.table import Entry, cells, estimate_entry, percents
from normbench.runs.record import RunRecord

ARMS = {
    "none": Look("Order-Embedding", COLOURS["none"]),
    "ln": Look("Order-Embedding + LN", COLOURS["layer"]),
}
RULES = "rules"  # the arm without training
QUANTITIES = tuple(
    Quantity(f"Image retrieval R@{k}", "valid", "eval", f"image_r{k}", x="Update", clock="step") for k in (1, 5, 10)
)


def panels(artifact: Artifact, runs: Sequence[RunRecord]) -> list[Panel]:
    """The paper's three panels. No curve of the paper is known as numbers."""
    return all_panels([run for run in runs if run.arm != RULES], ARMS, {"validation": {}}, QUANTITIES)


def table(artifact: Artifact, runs: Sequence[RunRecord]) -> list[Entry]:
    """Mean over the validation curve and its best point, per arm and control setting."""
    entries = []
    for group, _, arm, cell in cells(artifact, runs, ARMS, "as the code"):
        for quantity in QUANTITIES:
            where = quantity.split, quantity.mode, quantity.metric
            means = percents([area(series(run, *where), log=False) for run in cell])
            best = percents([at_epoch(run, quantity.split, quantity.metric, "best") for run in cell])
            entries += [
                estimate_entry(means, group, arm, f"{quantity.name}, mean over updates", "%"),
                estimate_entry(best, group, arm, f"{quantity.name}, best", "%"),
            ]
    return entries
