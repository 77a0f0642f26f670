"""BLN Fig. 6: loss and error of an RNN on IMDB against epochs; and what in BLN makes the difference."""

from __future__ import annotations

from collections.abc import Sequence

from normbench.draw.tables import Entry, estimate_entry, percents
from normbench.papers.bln2022 import histories
from normbench.papers.bln2022.histories import panels
from normbench.papers.claims import Artifact
from normbench.runs.run import Run
from normbench.stats.series import at_epoch

__all__ = ["explanation", "panels", "table"]
PUBLISHED = "error_published"  # accuracy as the authors count it: logits above one half


def explanation(artifact: Artifact, runs: Sequence[Run]) -> list[str]:
    """Which parts of BLN change its training; each number is from pairs of runs with the same seed."""
    change = histories.Changes(runs)
    if not change.log_loss:
        return []
    return [
        change.INTRODUCTION,
        f"Batch 25. BLN against BN: {change(25, 'bln', 'bn')}; against LN: {change(25, 'bln', 'ln')}; against no "
        f"normalization: {change(25, 'bln', 'none')}. BN with statistics for each word's place and the factor 1/√d, "
        f"which is 96 % of BLN at this batch size, against BN: {change(25, 'bn-pos-scaled', 'bn')}; BLN against it: "
        f"{change(25, 'bln', 'bn-pos-scaled')}. LN with the factor against LN: {change(25, 'ln-scaled', 'ln')}; BLN "
        f"against it: {change(25, 'bln', 'ln-scaled')}.",
        f"Batch 1, where BLN is 0.9999 LN / √d by construction. BLN against LN: {change(1, 'bln', 'ln')}; LN with the "
        f"factor against LN: {change(1, 'ln-scaled', 'ln')}; BLN against no normalization: {change(1, 'bln', 'none')}.",
    ]


def table(artifact: Artifact, runs: Sequence[Run]) -> list[Entry]:
    """As Fig. 4's, with the authors' threshold; the error with the proper one; BN evaluated as it is trained."""
    arms, entries = histories.arms(artifact), histories.table(artifact, runs, PUBLISHED)
    for batch in histories.BATCHES:
        for arm in arms:
            cell = histories.cell_of(runs, arm, batch)
            errors = [at_epoch(run, "test", "error", "best") for run in cell]
            entries.append(
                estimate_entry(
                    percents(errors), f"batch {batch}", arm, "test error, logits above 0, default evaluation", "%"
                )
            )
    # one value for each feature and place at batch 1: nothing to normalize, and no run
    entries = [entry for entry in entries if (entry.group, entry.row) != ("batch 1", "bn-pos-scaled")]
    for batch in histories.BATCHES:
        entries += histories.at_rates(runs, arms, batch, PUBLISHED)
    return entries + histories.of_evaluation_batches(runs, ["bn", "bn-pos-scaled"])
