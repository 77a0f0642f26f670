"""BLN Fig. 6: loss and error of an RNN on IMDB against epochs."""

from __future__ import annotations

from collections.abc import Sequence

from normbench.draw.tables import Entry, estimate_entry, percents
from normbench.papers.bln2022 import histories
from normbench.papers.bln2022.histories import panels
from normbench.papers.claims import Artifact
from normbench.runs.run import Run
from normbench.stats.series import at_epoch

__all__ = ["panels", "table"]
PUBLISHED = "error_published"  # accuracy as the authors count it: logits above one half


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
