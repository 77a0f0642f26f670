"""RBN Fig. 5: how far the statistics of an LSTM's steps are from those of the last step."""

from collections.abc import Sequence
from dataclasses import replace

from normbench.draw.panels import Line, Look, Panel, Quantity
from normbench.draw.style import COLOURS
from normbench.draw.tables import within
from normbench.papers.claims import Artifact
from normbench.runs.run import Run
from normbench.stats.series import aggregate

QUANTITIES = {"log_variance": "Mean |log(var_t / var_T)|", "mean_shift": "Mean |mean_t − mean_T| / std_T"}


def panels(artifact: Artifact, runs: Sequence[Run]) -> list[Panel]:
    ends = {record["split"] for run in runs for record in run.records if "log_variance" in record}
    steps = sorted((int(split.split()[-1]), split) for split in ends)  # by number: valid step 2, valid step 10
    drawn = []
    for key, name in QUANTITIES.items():
        for task, permute in {"in order": False, "permuted": True}.items():
            lines = []
            for arm, norm in {"none": "none", "bn": "batch"}.items():
                cell = within(runs, {"data.permute": permute, "arm": arm})
                last = [(t, aggregate(cell, split, "stage", key)[-1:]) for t, split in steps]
                points = [replace(p, x=t) for t, point in last for p in point if p.mean is not None]
                lines += [Line(arm, Look(artifact.names[arm], COLOURS[norm]), points, [], 0)] if points else []
            drawn += [Panel(task, Quantity(name, "valid", "stage", key, x="Step", log_x=True), lines)] if lines else []
    return drawn
