"""LN Table 2: test results of order embeddings at the weights that validation chose, with LN and without."""

from __future__ import annotations

from collections.abc import Sequence

from normbench.draw.tables import Entry, cells, estimate_entry, percents, value_entry
from normbench.papers.claims import Artifact
from normbench.papers.ln2016.fig1 import ARMS, RULES, caution
from normbench.runs.record import RunRecord
from normbench.stats.series import at_epoch

__all__ = ["caution", "table"]
METRICS = {  # in the paper's order, the median rank behind it
    f"{of}_{metric}": (f"{of} retrieval {title}", unit)
    for of in ("caption", "image")
    for metric, title, unit in (
        ("r1", "R@1", "%"), ("r5", "R@5", "%"), ("r10", "R@10", "%"),
        ("rank", "mean r", ""), ("median", "median r", ""),
    )
}  # fmt: skip
COUNTED = {"tfidf": "TF-IDF, cosine (no training)", "random": "at random"}


def table(artifact: Artifact, runs: Sequence[RunRecord]) -> list[Entry]:
    """The paper's columns, with its numbers for runs on its data; then TF-IDF and chance."""
    at_paper = all(run.fidelity == "paper" for run in runs)
    entries = []
    for group, control, arm, cell in cells(artifact.settings, runs, ARMS, "test"):
        for metric, (title, unit) in METRICS.items():
            paper = artifact.reference[arm].get(metric) if at_paper and not control else None
            values = [at_epoch(run, "test", metric, "best") for run in cell]
            scaled = percents(values) if unit else values
            entries.append(estimate_entry(scaled, group, arm, title, unit, f"{paper:.1f}" if paper is not None else ""))
    counted = [run for run in runs if run.arm == RULES]
    for rule, name in COUNTED.items():
        for metric, (title, unit) in METRICS.items():
            key = f"test_{rule}_{metric}"
            if any(key in record for run in counted for record in run.records):
                factor = 100.0 if unit else 1.0
                entries.append(value_entry(counted, "without training", name, title, key, unit, factor))
    return entries
