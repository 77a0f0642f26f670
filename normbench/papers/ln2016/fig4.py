"""LN Fig. 4: test bound of DRAW against epochs, with LN at the cells' outputs, weight normalization, and without."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from normbench.draw.panels import Look, Panel, Quantity
from normbench.draw.panels import panels as all_panels
from normbench.draw.style import COLOURS, EXTRA_COLOURS
from normbench.draw.tables import Entry, cells, final_entry, levels_by_seed, time_entry
from normbench.draw.text import show
from normbench.papers.claims import Artifact
from normbench.runs.record import RunRecord
from normbench.stats.series import final

ARMS = {
    "none": Look("Baseline", COLOURS["none"]),
    "wn": Look("WN", COLOURS["weight"]),
    "ln": Look("LN", COLOURS["layer"]),
    "none-scaled": Look("Baseline at LN's scale (ours)", EXTRA_COLOURS[1], in_paper=False),
    "none-x10": Look("Baseline, weights × 10 (ours)", EXTRA_COLOURS[0], in_paper=False),
}
BOUND = ("test", "eval", "bound")
SCALED = "none-scaled"
SHARES = (0.9, 0.95, 0.98)


def panels(artifact: Artifact, runs: Sequence[RunRecord]) -> list[Panel]:
    """The paper's panel and the part of the bound that the code costs, by median: one seed that is stuck would make
    the mean.
    """
    quantities = (
        Quantity("Test bound, nats", *BOUND, median=True),
        Quantity("KL term, nats", "test", "eval", "kl", median=True),
    )
    return all_panels(runs, ARMS, {"DRAW": {}}, quantities)


def table(artifact: Artifact, runs: Sequence[RunRecord]) -> list[Entry]:
    """Bound and KL of all test images at the end, epochs to levels of the baseline at LN's scale, updates clipped."""
    at_paper = all(run.fidelity == "paper" for run in runs)
    entries = []
    for group, control, arm, cell in cells(artifact.settings, runs, ARMS, "at the end of training"):
        own = [run for run in runs if run.control == control]
        levels = {share: levels_by_seed(own, [SCALED], BOUND, share) for share in SHARES}
        value = artifact.reference["epoch_200"].get(arm)
        paper = f"{value}" if value and at_paper and not control else ""
        entries += [
            _by_seed(cell, group, arm, paper),
            final_entry(cell, group, arm, "KL term", ("test", "whole", "kl"), unit="nats"),
            *(
                time_entry(cell, group, arm, f"epochs to {share:.0%} of the way of {SCALED}", BOUND, of_seed)
                for share, of_seed in levels.items()
            ),
            final_entry(cell, group, arm, "updates clipped, last epoch", ("train", "running", "clipped"), 100, "%"),
        ]
    return entries


def _by_seed(cell: Sequence[RunRecord], group: str, arm: str, paper: str) -> Entry:
    """Median and all seeds: one that is stuck would make the mean."""
    found = [value for run in cell if (value := final(run, "test", "whole", "bound")) is not None]
    text = f"{show(statistics.median(found))} (seeds: {', '.join(map(show, sorted(found)))})" if found else "not run"
    return Entry(group, arm, "test bound, median", "nats", len(found), paper=paper, literal=text)
