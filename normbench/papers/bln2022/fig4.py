"""BLN Fig. 4: loss and error of LeNet-5 on CIFAR-10 against epochs."""

from __future__ import annotations

from collections.abc import Sequence

from normbench.papers.bln2022 import histories
from normbench.papers.claims import Artifact
from normbench.papers.panels import Look, Panel
from normbench.papers.style import COLOURS
from normbench.papers.table import Entry
from normbench.runs.record import RunRecord

ARMS = histories.ARMS | {"none": Look("no normalization (ours)", COLOURS["none"], in_paper=False)}


def panels(artifact: Artifact, runs: Sequence[RunRecord]) -> list[Panel]:
    """Training loss and error as in the paper, and the validation loss; below ours the authors' logs."""
    return histories.panels(artifact, runs, ARMS)


def table(artifact: Artifact, runs: Sequence[RunRecord]) -> list[Entry]:
    """Final training error; test error and NLL at the lowest validation loss, by what the configuration is chosen."""
    return histories.table(artifact, runs, ARMS)
