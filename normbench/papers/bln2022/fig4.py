"""BLN Fig. 4: loss and error of LeNet-5 on CIFAR-10 against epochs."""

from __future__ import annotations

from collections.abc import Sequence

from normbench.draw.tables import Entry
from normbench.papers.bln2022 import histories
from normbench.papers.bln2022.histories import panels
from normbench.papers.claims import Artifact
from normbench.runs.run import Run

__all__ = ["panels", "table"]


def table(artifact: Artifact, runs: Sequence[Run]) -> list[Entry]:
    """Final training error; test error and NLL at the lowest validation loss, by what the configuration is chosen."""
    arms = histories.arms(artifact)
    rates = [entry for batch in histories.BATCHES for entry in histories.at_rates(runs, arms, batch)]
    return histories.table(artifact, runs) + rates
