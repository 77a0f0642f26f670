"""LN Fig. 6: train NLL (log axis) and test error against epochs, batch 128 left, batch 4 right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, BinaryIO

from normbench.curves.series import aggregate
from normbench.papers.claims import Artifact
from normbench.papers.style import COLOURS, WIDTH, pyplot, save
from normbench.papers.table import Entry, final_entry, time_entry
from normbench.runs.record import RunRecord

# arm: name in the figure, colour, line style, whether the paper has it
ARMS = {
    "bn-all": ("BatchNorm, all layers", COLOURS["batch"], "-", True),
    "none": ("Baseline", COLOURS["none"], "-", True),
    "ln": ("LayerNorm, hidden layers", COLOURS["layer"], "-", True),
    "bn": ("BatchNorm, hidden layers (ours)", COLOURS["batch"], "--", False),
    "ln-all": ("LayerNorm, all layers (ours)", COLOURS["layer"], "--", False),
}
ORDER = ("none", "bn", "bn-all", "ln", "ln-all")  # in tables; the figure's legend keeps the paper's order
BATCHES = (128, 4)
ROWS = (
    ("Train NLL", ("train", "eval", "nll"), True),
    ("Test error", ("test", "eval", "error"), False),
)


def _cell(runs: Sequence[RunRecord], arm: str, batch: int) -> list[RunRecord]:
    return [run for run in runs if not run.control and run.matches({"arm": arm, "train.batch_size": batch})]


def figure(artifact: Artifact, runs: Sequence[RunRecord], target: BinaryIO) -> None:
    """Means over seeds with 95 % intervals (geometric on the log axis). No curve of the paper is known as numbers."""
    plt = pyplot()
    fig, axes = plt.subplots(2, 2, figsize=(8.2, 6.2), sharex="col", squeeze=False)
    for column, batch in enumerate(BATCHES):
        for row, (name, where, log) in enumerate(ROWS):
            axis = axes[row][column]
            _finish(axis, name, log, _draw(axis, runs, batch, where, log))
            if row == 0:
                axis.set_title(f"batch size {batch}")
            if row == len(ROWS) - 1:
                axis.set_xlabel("Epoch")
    handles = {text: line for axis in axes.flat for line, text in zip(*axis.get_legend_handles_labels(), strict=True)}
    if handles:
        fig.legend(handles.values(), handles.keys(), loc="upper center", ncol=3, bbox_to_anchor=(0.5, 0.0))
    fig.tight_layout()
    save(fig, target)


def _draw(axis: Any, runs: Sequence[RunRecord], batch: int, where: tuple[str, str, str], log: bool) -> str:
    """Draw every arm that has runs; returns the count to print: seeds, and those that diverged."""
    counts, lost = set(), []
    for arm, (name, colour, style, in_paper) in ARMS.items():
        cell = _cell(runs, arm, batch)
        points = [p for p in aggregate(cell, *where, log=log) if p.epoch >= 1 and p.mean is not None]
        if not points:
            continue
        counts.add(len(cell))
        if diverged := sum(run.status == "diverged" for run in cell):
            lost.append(f"{arm}: {diverged} diverged")
        width = WIDTH["paper" if in_paper else "extra"]
        axis.plot([p.epoch for p in points], [p.mean for p in points], style, color=colour, lw=width, label=name)
        band = [p for p in points if p.interval is not None and p.n >= 3]  # of two runs it covers the whole panel
        axis.fill_between(
            [p.epoch for p in band],
            [p.interval[0] for p in band if p.interval],
            [p.interval[1] for p in band if p.interval],
            color=colour,
            alpha=0.12,
            lw=0,
        )
    seeds = "–".join(str(n) for n in sorted({min(counts), max(counts)})) if counts else ""
    return ", ".join([f"n = {seeds}", *lost]) if counts else ""


def _finish(axis: Any, name: str, log: bool, count: str) -> None:
    axis.set_ylabel(name)
    if not count:
        axis.set_xticks([])
        axis.set_yticks([])
        axis.text(0.5, 0.5, "not run", ha="center", va="center", transform=axis.transAxes, color="#888888")
        return
    # the means set the axis: with few seeds an interval can span more decades than the curves do
    if log:
        axis.set_yscale("log")
        means = [y for line in axis.get_lines() for y in line.get_ydata()]
        axis.set_ylim(min(means) / 3, max(means) * 2)
    elif axis.get_ylim()[1] > 0.025:
        # the first epochs of a slow arm would flatten everything else; the paper's axis ends at 0.025
        lines = [y for line in axis.get_lines() for y in line.get_ydata()[len(line.get_ydata()) // 10 :]]
        axis.set_ylim(min(lines) * 0.9, max(lines) * 1.05)
    axis.text(0.98, 0.96, count, ha="right", va="top", transform=axis.transAxes, color="#888888", fontsize=8)


def table(artifact: Artifact, runs: Sequence[RunRecord]) -> list[Entry]:
    """Final test error and train NLL (geometric mean), and epochs to three levels of it, per arm and batch size."""
    entries = []
    for batch in BATCHES:
        group = f"batch {batch}"
        for arm in ORDER:
            cell = _cell(runs, arm, batch)
            paper = "figure only" if ARMS[arm][3] else "–"
            entries += [
                final_entry(cell, group, arm, "final test error", ("test", "eval", "error"), 100, "%", paper),
                final_entry(cell, group, arm, "final train NLL", ("train", "eval", "nll"), log=True),
                final_entry(cell, group, arm, "in training mode", ("train", "train", "nll"), log=True),
                *(
                    time_entry(cell, group, arm, f"epochs to {level:g}", ("train", "eval", "nll"), level)
                    for level in (1e-2, 1e-3, 1e-4)
                ),
            ]
    return entries
