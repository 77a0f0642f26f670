"""LN section 3, the online regime: train NLL and test error against epochs at batch size 1."""

from __future__ import annotations

from collections.abc import Sequence

from normbench.papers.claims import Artifact
from normbench.papers.ln2016.fig6 import ARMS, QUANTITIES
from normbench.papers.panels import Panel
from normbench.papers.panels import panels as all_panels
from normbench.papers.table import Entry, final_entry
from normbench.runs.record import RunRecord

ORDER = ("none", "bn-all", "ln")


def panels(artifact: Artifact, runs: Sequence[RunRecord]) -> list[Panel]:
    """The quantities of Fig. 6 at batch size 1; the paper has no such figure."""
    return all_panels(runs, {arm: ARMS[arm] for arm in ORDER}, {"batch size 1": {}}, QUANTITIES)


def table(artifact: Artifact, runs: Sequence[RunRecord]) -> list[Entry]:
    """Final test error and train NLL (geometric mean) per arm."""
    entries = []
    for arm in ORDER:
        cell = [run for run in runs if not run.control and run.arm == arm]
        entries += [
            final_entry(cell, "batch 1", arm, "final test error", ("test", "eval", "error"), 100, "%"),
            final_entry(cell, "batch 1", arm, "final train NLL (geometric mean)", ("train", "eval", "nll"), log=True),
            final_entry(cell, "batch 1", arm, "in training mode (geometric mean)", ("train", "train", "nll"), log=True),
        ]
    return entries
