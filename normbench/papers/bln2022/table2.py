"""BLN Table 2: which statistics the RNN is best evaluated with on IMDB, 20 % of it and the whole."""

from __future__ import annotations

from collections.abc import Sequence

from normbench.draw.tables import Entry
from normbench.papers.bln2022 import configurations
from normbench.papers.bln2022.configurations import panels
from normbench.papers.claims import Artifact
from normbench.runs.run import Run

__all__ = ["panels", "table"]


def table(artifact: Artifact, runs: Sequence[Run]) -> list[Entry]:
    """As Table 1's, with the accuracy of the authors' threshold."""
    return configurations.table(artifact, runs, error="error_published")
