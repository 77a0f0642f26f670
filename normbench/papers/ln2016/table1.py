"""LN Table 1: the invariances of a normalized layer to changes of weights and data, the paper's and ours."""

from __future__ import annotations

from collections.abc import Sequence

from normbench.draw.tables import Entry
from normbench.norms.sites import INVARIANT, NOT
from normbench.papers.claims import Artifact
from normbench.runs.run import Run

COLUMNS = {
    "W_rescale": "weight matrix re-scaling",
    "W_recenter": "weight matrix re-centring",
    "w_vector_rescale": "weight vector re-scaling",
    "data_rescale": "data set re-scaling",
    "data_recenter": "data set re-centring",
    "case_rescale": "single case re-scaling",
    "case_recenter": "single case shifting",
    "summed_recenter": "summed inputs of a case shifted",
    "affine": "fixed weights in evaluation",
}
PAPER = ("batch", "weight", "layer")


def table(artifact: Artifact, runs: Sequence[Run]) -> list[Entry]:
    """Yes or no with the largest relative deviation; the paper's three methods first, then all others."""
    by_arm = {run.arm: run for run in runs if not run.control}
    reference = artifact.reference
    entries = []
    for arm in [*PAPER, *sorted(set(by_arm) - set(PAPER))]:
        record = by_arm[arm].records[-1] if arm in by_arm else {}
        for key, name in COLUMNS.items():
            paper = ""
            if key in reference["columns"]:
                words = reference.get(arm)
                paper = "–" if words is None else _format_yes_no(words[reference["columns"].index(key)])
            value = float(record[key]) if key in record else None
            entries.append(
                Entry(
                    "Table 1",
                    arm,
                    name,
                    "",
                    int(value is not None),
                    value,
                    paper=paper,
                    literal=format_deviation(value),
                )
            )
    return entries


def _format_yes_no(invariant: bool) -> str:
    return "yes" if invariant else "no"


def format_deviation(value: float | None) -> str:
    """Yes or no, as in the claims, with the deviation: `yes (2e-16)`."""
    if value is None:
        return ""
    word = _format_yes_no(value <= INVARIANT) if value <= INVARIANT or value >= NOT else "unclear"
    return f"{word} ({value:.2g})"
