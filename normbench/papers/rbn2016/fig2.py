"""RBN Fig. 2 and Table 1: validation error of LSTMs on sequential MNIST, and test errors at the best of it."""

from collections.abc import Sequence

from normbench.draw.panels import Look, Panel, Quantity
from normbench.draw.panels import panels as all_panels
from normbench.draw.style import COLOURS, EXTRA_COLOURS
from normbench.draw.tables import Entry, cells, estimate_entry, percents
from normbench.papers.claims import Artifact
from normbench.runs.record import RunRecord
from normbench.stats.series import at_epoch

ARMS = {
    "none": Look("LSTM", COLOURS["none"]),
    "bn": Look("BN-LSTM", COLOURS["batch"]),
    "ln": Look("LN-LSTM, gain 0.1 (ours)", COLOURS["layer"], in_paper=False),
    "bn-gain1": Look("BN-LSTM, gain 1", EXTRA_COLOURS[0]),
    "ln-quiet": Look("LN-LSTM without noise (ours)", EXTRA_COLOURS[2], in_paper=False),
}
TASKS = {"in order": {"data.permute": False}, "permuted": {"data.permute": True}}
ERRORS = (("lowest validation error", "valid", None), ("test error there", "test", None))
OF_BN = (("by the batch", "test", "eval_stats=batch"), ("by running averages", "test", "eval_stats=running"))


def panels(artifact: Artifact, runs: Sequence[RunRecord]) -> list[Panel]:
    return all_panels(runs, ARMS, TASKS, [Quantity("Validation error, %", "valid", "eval", "error", factor=100)])


def table(artifact: Artifact, runs: Sequence[RunRecord]) -> list[Entry]:
    """Table 1 as errors, with the paper's for runs of its protocol; of BN by other statistics as well."""
    paper, entries = artifact.reference["error"] if any(run.fidelity == "paper" for run in runs) else {}, []
    for task, place in TASKS.items():
        for group, control, arm, cell in cells(artifact.settings, [r for r in runs if r.matches(place)], ARMS, task):
            where = (f"{task}, {group}" if control else task, ARMS[arm].name)
            for name, split, variant in (*ERRORS, *(OF_BN if arm.startswith("bn") else ())):
                errors = percents([at_epoch(run, split, "error", "best", variant) for run in cell])
                entries.append(estimate_entry(errors, *where, name, "%", paper.get(f"{name}, {arm}, {group}", "")))
    return entries
