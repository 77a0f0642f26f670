"""LN Fig. 5: negative log density of handwritten lines against updates, with LN and without."""

from __future__ import annotations

from collections.abc import Sequence

from normbench.draw.panels import Look, Panel, Quantity
from normbench.draw.panels import panels as all_panels
from normbench.draw.style import COLOURS
from normbench.draw.tables import Entry, cells, final_entry, levels_by_seed, time_entry
from normbench.papers.claims import Artifact
from normbench.runs.record import RunRecord

ARMS = {"none": Look("Baseline", COLOURS["none"]), "ln": Look("LN", COLOURS["layer"])}
NLL = ("test", "eval", "line_nll")
SHARES = (0.5, 0.8, 0.95)


def panels(artifact: Artifact, runs: Sequence[RunRecord]) -> list[Panel]:
    """The paper's panel, whose axis of updates is logarithmic from 200 on, test and training lines; the window."""
    quantities = (
        Quantity("Test NLL per line, nats", *NLL, x="Update", clock="step"),
        Quantity("Train NLL per line, nats", "train", "eval", "line_nll", x="Update", clock="step"),
        Quantity("Window's speed, characters a point", "test", "eval", "speed", x="Update", clock="step"),
    )
    return all_panels(runs, ARMS, {"handwriting": {}}, quantities)


def table(artifact: Artifact, runs: Sequence[RunRecord]) -> list[Entry]:
    """NLL of test and training lines at the end, updates to levels of the baseline, the window's speed."""
    entries = []
    for group, control, arm, cell in cells(artifact.settings, runs, ARMS, "at the end of training"):
        own = [run for run in runs if run.control == control]
        levels = {share: levels_by_seed(own, ["none"], NLL, share) for share in SHARES}
        entries += [
            final_entry(cell, group, arm, "test NLL per line", NLL, unit="nats"),
            final_entry(cell, group, arm, "train NLL per line", ("train", "eval", "line_nll"), unit="nats"),
            *(
                time_entry(
                    cell, group, arm, f"updates to {share:.0%} of the baseline's way", NLL, of_seed, clock="step"
                )
                for share, of_seed in levels.items()
            ),
            final_entry(cell, group, arm, "window's speed", ("test", "eval", "speed"), unit="characters a point"),
        ]
    return entries
