"""LN Fig. 5: negative log density of handwritten lines against updates, with LN and without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from normbench.draw.panels import Look, Panel, Quantity
from normbench.draw.panels import panels as all_panels
from normbench.draw.style import COLOURS
from normbench.draw.tables import Entry, cells, final_entry, levels_by_seed, time_entry
from normbench.papers.claims import Artifact
from normbench.runs.record import RunRecord

ARMS = {"none": Look("Baseline, test lines", COLOURS["none"]), "ln": Look("LN, test lines", COLOURS["layer"])}
NLL = ("test", "eval", "line_nll")
SHARES = (0.5, 0.8, 0.95)


def panels(artifact: Artifact, runs: Sequence[RunRecord]) -> list[Panel]:
    """The paper's panel, with its logarithmic axis of updates, test and training lines together; the window."""
    quantities = [
        Quantity(name, *where, x="Update", clock="step", log_x=True)
        for name, where in (
            ("NLL per line, nats", NLL),
            ("NLL per line, nats", ("train", "eval", "line_nll")),
            ("Window's speed, characters a point", ("test", "eval", "speed")),
        )
    ]
    test, train, speed = all_panels(runs, ARMS, {"handwriting": {}}, quantities)
    of_training = []
    for line in train.lines:
        name = f"{line.look.name.removesuffix(', test lines')}, training lines"
        look = replace(line.look, name=name, in_paper=False)
        of_training.append(replace(line, arm=f"{line.arm}, training", look=look))
    return [replace(test, lines=[*test.lines, *of_training]), speed]


def table(artifact: Artifact, runs: Sequence[RunRecord]) -> list[Entry]:
    """NLL of test and training lines at the end, updates to levels of the baseline, the window's speed."""
    entries = []
    for group, control, arm, cell in cells(artifact.settings, runs, ARMS, "at the end of training"):
        own = [run for run in runs if run.control == control]
        levels = {share: levels_by_seed(own, ["none"], NLL, share) for share in SHARES}
        entries += [
            final_entry(cell, group, arm, "test NLL per line", NLL, unit="nats"),
            final_entry(cell, group, arm, "train NLL per line", ("train", "eval", "line_nll"), unit="nats"),
            *(
                time_entry(
                    cell, group, arm, f"updates to {share:.0%} of the baseline's way", NLL, of_seed, clock="step"
                )
                for share, of_seed in levels.items()
            ),
            final_entry(cell, group, arm, "window's speed", ("test", "eval", "speed"), unit="characters a point"),
        ]
    return entries
