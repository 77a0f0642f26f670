"""BLN part by part: training loss of LeNet-5 on CIFAR-10 in groups of arms, BLN in every group."""

from __future__ import annotations

from collections.abc import Sequence

from normbench.draw.tables import Entry
from normbench.papers import default_artifact
from normbench.papers.bln2022.histories import at_rates, of_evaluation_batches
from normbench.papers.claims import Artifact
from normbench.runs.run import Run


def table(artifact: Artifact, runs: Sequence[Run]) -> list[Entry]:
    """Mean training loss, last training error, test error and NLL at the lowest validation loss; then more of some."""
    arms = list(artifact.table[0].rows)
    normalized = [arm for arm in arms if arm.startswith("bn")]
    entries = default_artifact.table(artifact, runs) + at_rates(runs, arms, 25)
    return entries + of_evaluation_batches(runs, normalized)
