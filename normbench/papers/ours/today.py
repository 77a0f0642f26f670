"""Normalizers of today: a scorecard of tasks and normalizers, each at the learning rate that validation chose."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from normbench.draw.panels import AXES, Look, Panel, Quantity
from normbench.draw.panels import panels as all_panels
from normbench.draw.style import COLOURS
from normbench.draw.tables import Entry, estimate_entry
from normbench.papers.claims import Artifact
from normbench.runs.record import RunRecord
from normbench.stats.series import at_epoch


class Task(NamedTuple):
    """`chosen_by`: the metric on the valid split by which evaluations and rates are chosen; `sign`: 1 where lower is
    better.
    """

    title: str
    metric: str
    name: str
    unit: str
    chosen_by: str
    sign: int = 1
    factor: float = 1


TASKS = {
    "mnist": Task("MNIST (MLP)", "nll", "test NLL", "nats", "nll"),
    "imdb": Task("IMDB (RNN)", "nll", "test NLL", "nats", "nll"),
    "recall": Task("recall (LSTM)", "nll", "test NLL", "nats", "nll"),
    "captions": Task("captions (GRU)", "image_r10", "test image R@10", "points", "image_rsum", -1, 100),
}
NORMS = {
    "none": "no normalization", "layer": "LN", "rms": "RMSNorm", "dyt": "DyT", "derf": "Derf", "scale": "ScaleNorm",
    "batch": "BN",
}  # fmt: skip
RATES = {"rate-low": "a third of the rate", "rate-mid": "the task's rate", "rate-high": "three times the rate"}


def table(artifact: Artifact, runs: Sequence[RunRecord]) -> list[Entry]:
    """By task and normalizer: the paired difference to none, the test result and the rate; then all rates."""
    entries = []
    for task, one, cells in _tasks(runs):
        for arm, name in cells.items():
            cell = _cell(runs, arm)
            none = {run.seed: _result(one, run) for run in _cell(runs, f"{task}-none")}
            differences = [_less(_result(one, run), none[run.seed]) for run in cell if run.seed in none]
            rate = f"{float(cell[0].config['optim']['lr']):.3g}" if cell else ""
            less = f"{one.name} less that of no normalization"
            entries += [
                Entry(one.title, name, less, one.unit, len(cell), literal="–")
                if arm == f"{task}-none"
                else estimate_entry(differences, one.title, name, less, one.unit),
                estimate_entry([_result(one, run) for run in cell], one.title, name, one.name, one.unit),
                Entry(one.title, name, "learning rate", "", len(cell), literal=rate),
            ]
    for _, one, cells in _tasks(runs):
        for arm, name in cells.items():
            for control, rate in RATES.items():
                values = [_validation(one, run) for run in _cell(runs, arm, control)]
                title = f"{one.title}, {_monitored(one)} by learning rate"
                entries.append(estimate_entry(values, title, name, rate))
    return entries


def panels(artifact: Artifact, runs: Sequence[RunRecord]) -> list[Panel]:
    """A panel for each task: what is monitored on the valid split."""
    found = []
    for task, one, cells in _tasks(runs):
        looks = {arm: Look(name, COLOURS[arm.partition("-")[2]]) for arm, name in cells.items()}
        clock = "step" if task == "captions" else "epoch"
        where = f"V{_monitored(one)[1:]}", "valid", "eval", one.chosen_by
        quantity = Quantity(*where, log=one.sign > 0, x=AXES[clock], clock=clock)
        found += all_panels([run for run in runs if run.arm in cells], looks, {one.title: {}}, [quantity])
    return found


def caution(artifact: Artifact, runs: Sequence[RunRecord]) -> str:
    """Where an arm was not trained at the rate that validation chose."""
    others = [
        name
        for _, one, cells in _tasks(runs)
        for arm, name in cells.items()
        for rate in {float(run.config["optim"]["lr"]) for run in _cell(runs, arm)}
        if (best := chosen(runs, arm, one)) is not None and rate != best
    ]
    return f"Not at the rate that validation chooses: {', '.join(others)}." if others else ""


def chosen(runs: Sequence[RunRecord], arm: str, task: Task) -> float | None:
    """The rate with the best mean of the best evaluations on the valid split; None before all of them have runs."""
    means: dict[float, float] = {}
    for control in RATES:
        cell = _cell(runs, arm, control)
        values = [_validation(task, run) for run in cell]
        if not values:
            return None
        lost = any(value is None or not math.isfinite(value) for value in values)
        mean = math.inf if lost else task.sign * statistics.fmean(value for value in values if value is not None)
        means[float(cell[0].config["optim"]["lr"])] = mean
    return min(means, key=means.__getitem__)


def _tasks(runs: Sequence[RunRecord]) -> Iterator[tuple[str, Task, Mapping[str, str]]]:
    """Tasks that have runs, with the names of their arms."""
    arms = {run.arm for run in runs}
    for task, one in TASKS.items():
        if cells := {f"{task}-{norm}": name for norm, name in NORMS.items() if f"{task}-{norm}" in arms}:
            yield task, one, cells


def _monitored(task: Task) -> str:
    return f"validation {'NLL' if task.chosen_by == 'nll' else task.chosen_by.replace('_', ' ')}"


def _cell(runs: Sequence[RunRecord], arm: str, control: str = "") -> list[RunRecord]:
    return [run for run in runs if (run.arm, run.control) == (arm, control)]


def _result(task: Task, run: RunRecord) -> float | None:
    value = None if run.status == "diverged" else at_epoch(run, "test", task.metric, "best")
    return None if value is None else task.factor * value


def _validation(task: Task, run: RunRecord) -> float | None:
    return None if run.status == "diverged" else at_epoch(run, "valid", task.chosen_by, "best")


def _less(value: float | None, other: float | None) -> float | None:
    return None if value is None or other is None else value - other
