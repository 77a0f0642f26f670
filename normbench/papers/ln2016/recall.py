"""LN sections 3.1 and 7: the recall task by length of sequences and size of batches, and on longer test sequences."""

from __future__ import annotations

from collections.abc import Sequence

from normbench.draw.panels import Look, Panel, Quantity
from normbench.draw.panels import panels as all_panels
from normbench.draw.style import COLOURS
from normbench.draw.tables import Entry, final_entry, within
from normbench.papers.claims import Artifact
from normbench.runs.record import RunRecord

ARMS = {
    "none": Look("LSTM", COLOURS["none"]),
    "ln": Look("LN-LSTM", COLOURS["layer"]),
    "bn": Look("BN-LSTM, per step", COLOURS["batch"]),
}
LENGTHS, BATCHES = (10, 40), (64, 4)
QUANTITIES = (
    Quantity("Test NLL", "test", "eval", "nll", log=True),
    Quantity("Test error", "test", "eval", "error"),
    Quantity("Error at 4 times the length", "test 4x", "eval", "error"),
)
TESTS = {"test": "test error", "test 2x": "at 2 times the length", "test 4x": "at 4 times the length"}


def panels(artifact: Artifact, runs: Sequence[RunRecord]) -> list[Panel]:
    """A column per length and batch size; the paper has no such figure."""
    columns = {
        f"length {length}, batch {batch}": {"data.length": length, "train.batch_size": batch}
        for length in LENGTHS
        for batch in BATCHES
    }
    return all_panels(runs, ARMS, columns, QUANTITIES)


def table(artifact: Artifact, runs: Sequence[RunRecord]) -> list[Entry]:
    """Final errors at once, twice and four times the trained length, and the test NLL."""
    entries = []
    for length in LENGTHS:
        for batch in BATCHES:
            group = f"length {length}, batch {batch}"
            for arm, look in ARMS.items():
                found = within(runs, {"arm": arm, "data.length": length, "train.batch_size": batch})
                entries += [
                    final_entry(found, group, look.name, name, (split, "eval", "error"), 100, "%")
                    for split, name in TESTS.items()
                ]
                entries.append(
                    final_entry(found, group, look.name, "test NLL (geometric mean)", ("test", "eval", "nll"), log=True)
                )
    return entries
