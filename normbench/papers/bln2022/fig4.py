"""BLN Fig. 4: loss and error of LeNet-5 on CIFAR-10 against epochs."""

from __future__ import annotations

from collections.abc import Sequence

from normbench.draw.tables import Entry
from normbench.papers.bln2022 import histories
from normbench.papers.bln2022.histories import panels
from normbench.papers.claims import Artifact
from normbench.runs.run import Run

__all__ = ["explanation", "panels", "table"]


def explanation(artifact: Artifact, runs: Sequence[Run]) -> list[str]:
    """Test error at both choices of the epoch: the one that decides, and the last."""
    change = histories.Changes(runs)
    if not change.log_loss:
        return []

    def changes(when: str) -> str:
        gains = {arm: change.in_test_error("bln", arm, when, "best by valid") for arm in ("bn", "ln", "none")}
        return f"against BN {gains['bn']}, against LN {gains['ln']}, against no normalization {gains['none']}"

    return [
        "Test error, batch 25, BLN with the configuration that is best on validation; negative is better, with 95 % "
        "intervals over seeds, which do not contain the choice of the test images. At the lowest validation loss, "
        f"where BLN-4 is decided: {changes('best')}. At the last epoch: {changes('last')}.",
    ]


def table(artifact: Artifact, runs: Sequence[Run]) -> list[Entry]:
    """Final training error; test error and NLL at the lowest validation loss, by what the configuration is chosen."""
    arms = histories.arms(artifact)
    rates = [entry for batch in histories.BATCHES for entry in histories.at_rates(runs, arms, batch)]
    return histories.table(artifact, runs) + rates
