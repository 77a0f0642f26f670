"""RBN Fig. 4a: validation error of the attentive reader, by the runs of LN Fig. 2."""

from collections.abc import Sequence

from normbench.draw.panels import Panel
from normbench.draw.tables import Entry
from normbench.papers import artifact as artifacts
from normbench.papers.claims import Artifact
from normbench.papers.ln2016 import fig2
from normbench.runs.run import Run


def panels(artifact: Artifact, runs: Sequence[Run]) -> list[Panel]:
    return fig2.panels(artifacts.load(artifact.experiment), [run for run in runs if run.arm in artifact.names])


def table(artifact: Artifact, runs: Sequence[Run]) -> list[Entry]:
    return [e for e in fig2.table(artifacts.load(artifact.experiment), runs) if e.row in artifact.names.values()]


def caution(artifact: Artifact, runs: Sequence[Run]) -> str:
    return fig2.caution(artifact, [run for run in runs if run.arm in (*artifact.names, "rules")])
