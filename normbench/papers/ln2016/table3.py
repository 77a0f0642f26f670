"""LN Table 3: skip-thought vectors on seven measures after training, with LN in encoder and decoders and without."""

from __future__ import annotations

from collections.abc import Sequence

from normbench.papers.claims import Artifact
from normbench.papers.ln2016.fig3 import ARMS, MEASURES
from normbench.papers.panels import Panel
from normbench.papers.table import Entry, cells, final_entry
from normbench.runs.record import RunRecord


def panels(artifact: Artifact, runs: Sequence[RunRecord]) -> list[Panel]:
    """None: a table."""
    return []


def table(artifact: Artifact, runs: Sequence[RunRecord]) -> list[Entry]:
    """The paper's columns, its numbers beside ours where the data are its."""
    at_paper = all(run.fidelity == "paper" for run in runs)
    entries = []
    for group, control, arm, cell in cells(artifact, runs, ARMS, "after training"):
        for (split, metric), (name, factor, unit) in MEASURES.items():
            known = artifact.reference[arm][f"{split}_{metric}"]
            paper = f"{known:g}" if at_paper and not control else ""
            where = (split, "stage", metric)
            entries.append(final_entry(cell, group, arm, name, where, factor, unit, paper))
    return entries
