"""LN section 6.7: training of convolutional networks, and what units near the boundary of the image do."""

from __future__ import annotations

from collections.abc import Sequence

from normbench.draw.panels import Look, Panel, Quantity
from normbench.draw.panels import panels as all_panels
from normbench.draw.style import COLOURS
from normbench.draw.tables import Entry, cells, estimate_entry, final_entry, percents, time_entry, within
from normbench.papers.claims import Artifact
from normbench.runs.record import RunRecord
from normbench.stats.series import at_epoch

ARMS = {
    "none": Look("Baseline", COLOURS["none"]),
    "bn": Look("BatchNorm", COLOURS["batch"]),
    "ln": Look("LayerNorm", COLOURS["layer"]),
    "ln-channels": Look("LayerNorm over channels (ours)", COLOURS["layer"], in_paper=False),
    "group": Look("GroupNorm, one group (ours)", COLOURS["group"], in_paper=False),
}
QUANTITIES = (
    Quantity("Train NLL, running mean", "train", "running", "nll", log=True),
    Quantity("Validation error", "valid", "eval", "error"),
)
LAYERS = tuple(f"conv.{i}" for i in range(6))
RUNNING, LEVELS = ("train", "running", "nll"), (1.0, 0.3, 0.1)
PLACES = ("border", "interior")


def panels(artifact: Artifact, runs: Sequence[RunRecord]) -> list[Panel]:
    """Training loss and validation error against epochs; the paper has no such figure."""
    return all_panels(runs, ARMS, {"convolutional network": {}}, QUANTITIES)


def table(artifact: Artifact, runs: Sequence[RunRecord]) -> list[Entry]:
    """Test errors and train NLL of each arm and control; then, by arm, the units of each layer at its border."""
    entries = []
    for group, _, arm, cell in cells(artifact.settings, runs, ARMS, "training"):
        name = ARMS[arm].name
        best = percents([at_epoch(run, "test", "error", "best") for run in cell])
        entries += [
            final_entry(cell, group, name, "final test error", ("test", "eval", "error"), 100, "%"),
            estimate_entry(best, group, name, "at the best validation", "%"),
            final_entry(cell, group, name, "final train NLL (geometric mean)", RUNNING, log=True),
            *(time_entry(cell, group, name, f"epochs to train NLL {level:g}", RUNNING, level) for level in LEVELS),
        ]
    return entries + [entry for arm in ARMS for entry in _units(arm, runs)]


def _units(arm: str, runs: Sequence[RunRecord]) -> list[Entry]:
    """How many units of a layer are on, and how much their summed inputs vary, at its border and elsewhere."""
    cell = within(runs, {"arm": arm})
    group, entries = f"{ARMS[arm].name}: units at the border and in the interior of a layer", []
    for layer in LAYERS:
        of = f"test {layer}", "stage"
        entries += [
            *(final_entry(cell, group, layer, f"on, {place}", (*of, f"{place}_on"), 100, "%") for place in PLACES),
            *(
                final_entry(cell, group, layer, f"{name} of the summed inputs, {place}", (*of, f"{place}_{name}"))
                for name in ("mean", "variance")
                for place in PLACES
            ),
        ]
    return entries
