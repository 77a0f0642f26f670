"""RBN Fig. 5: how far the statistics of an LSTM's steps are from those of the last step."""

from collections.abc import Sequence
from dataclasses import replace

from normbench.draw.panels import Line, Panel, Quantity
from normbench.draw.tables import within
from normbench.papers.claims import Artifact
from normbench.papers.default_artifact import table as table
from normbench.papers.rbn2016.fig2 import ARMS, TASKS
from normbench.runs.record import RunRecord
from normbench.stats.series import aggregate

QUANTITIES = {"log_variance": "Mean |log(var_t / var_T)|", "mean_shift": "Mean |mean_t − mean_T| / std_T"}
END = "valid step "  # before the number of the step, of the splits that the model's last stage has


def panels(artifact: Artifact, runs: Sequence[RunRecord]) -> list[Panel]:
    """Both distances, for each order of the pixels."""
    steps = sorted({int(r["split"].removeprefix(END)) for run in runs for r in run.records if END in r["split"]})
    found = []
    for key, name in QUANTITIES.items():
        for task, place in TASKS.items():
            lines = []
            for arm in ("none", "bn"):
                cell = within(runs, {**place, "arm": arm})
                ends = [(t, aggregate(cell, f"{END}{t}", "stage", key)[-1:]) for t in steps]
                points = [replace(p, x=t) for t, point in ends for p in point if p.mean is not None]
                lines += [Line(arm, ARMS[arm], points, [], 0)] if points else []
            found += [Panel(task, Quantity(name, "valid", "stage", key, x="Step", log_x=True), lines)] if lines else []
    return found
