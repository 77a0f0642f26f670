"""LN Fig. 3: skip-thought vectors on downstream tasks against updates, with LN in encoder and decoders and without."""

from __future__ import annotations

from collections.abc import Sequence

from normbench.curves.series import area, series
from normbench.papers.claims import Artifact
from normbench.papers.panels import Look, Panel, Quantity
from normbench.papers.panels import panels as all_panels
from normbench.papers.style import COLOURS
from normbench.papers.table import Entry, cells, estimate_entry, final_entry
from normbench.runs.record import RunRecord

ARMS = {"none": Look("Skip-Thoughts", COLOURS["none"]), "ln": Look("Skip-Thoughts + LN", COLOURS["layer"])}
RULES = "rules"
NLL = ("valid", "eval", "nll")
# in the order of Table 3: split and metric; name, factor and unit
MEASURES = {
    ("sick", "pearson"): ("SICK r", 1.0, ""),
    ("sick", "spearman"): ("SICK ρ", 1.0, ""),
    ("sick", "mse"): ("SICK MSE", 1.0, ""),
    **{(name, "accuracy"): (name.upper(), 100.0, "%") for name in ("mr", "cr", "subj", "mpqa")},
}
IN_TABLE_ALONE = ("sick", "spearman")


def panels(artifact: Artifact, runs: Sequence[RunRecord]) -> list[Panel]:
    """The paper's six panels, and the loss on held-out books."""
    quantities = [
        Quantity(f"{name}, accuracy" if factor != 1 else name, split, "along", metric, x="Update", clock="step")
        for (split, metric), (name, factor, _) in MEASURES.items()
        if (split, metric) != IN_TABLE_ALONE
    ]
    quantities.append(Quantity("NLL per word, held-out books", *NLL, x="Update", clock="step"))
    return all_panels([run for run in runs if run.arm != RULES], ARMS, {"skip-thoughts": {}}, quantities)


def table(artifact: Artifact, runs: Sequence[RunRecord]) -> list[Entry]:
    """Means over the checkpoints, with one C for all, and NLL per word of held-out books at the end."""
    entries = []
    for group, _, arm, cell in cells(artifact, runs, ARMS, "over training"):
        for (split, metric), (name, factor, unit) in MEASURES.items():
            means = [area(series(run, split, "along", metric), log=False) for run in cell]
            shown = [None if value is None else value * factor for value in means]
            entries.append(estimate_entry(shown, group, arm, f"{name}, mean over updates", unit))
        entries.append(final_entry(cell, group, arm, "NLL per word, at the end", NLL, unit="nats"))
    return entries
