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
from normbench.runs.run import Run
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
    "recall80": Task("recall of 80 steps (LSTM)", "nll", "test NLL", "nats", "nll"),
    "lm": Task("characters (Transformer)", "nll", "test NLL", "nats per character", "nll"),
    "vit": Task("CIFAR-10 (Transformer)", "nll", "test NLL", "nats", "nll"),
    "captions": Task("captions (GRU)", "image_r10", "test image R@10", "points", "image_rsum", -1, 100),
}
NORMS = {
    "none": "no normalization", "layer": "LN", "rms": "RMSNorm", "dyt": "DyT", "derf": "Derf", "scale": "ScaleNorm",
    "batch": "BN",
}  # fmt: skip
RATES = {
    "rate-low3": "a 27th of the rate", "rate-low2": "a 9th of the rate", "rate-low": "a third of the rate",
    "rate-mid": "the task's rate", "rate-high": "three times the rate", "rate-high2": "9 times the rate",
    "rate-high3": "27 times the rate",
}  # fmt: skip
FIRST_RATES = {"rate-low", "rate-mid", "rate-high"}  # of all arms; the others are of arms at an edge of these


def table(artifact: Artifact, runs: Sequence[Run]) -> list[Entry]:
    """By task and normalizer: the paired difference to none, the test result and the rate; then all rates."""
    entries = []
    for task, setting, cells in _tasks(runs):
        for arm, name in cells.items():
            none = {run.seed: result(setting, run) for run in runs_of(runs, f"{task}-none")}
            # further seeds are of single claims
            cell = [run for run in runs_of(runs, arm) if run.seed in none or not none]
            differences = [_less(result(setting, run), none[run.seed]) for run in cell if none]
            rate = f"{rate_of(cell[0]):.3g}{edge(runs, arm, setting, rate_of(cell[0]))}" if cell else ""
            less = f"{setting.name} less that of no normalization"
            entries += [
                Entry(setting.title, name, less, setting.unit, len(cell), literal="–")
                if arm == f"{task}-none"
                else estimate_entry(differences, setting.title, name, less, setting.unit),
                estimate_entry([result(setting, run) for run in cell], setting.title, name, setting.name, setting.unit),
                Entry(setting.title, name, "learning rate", "", len(cell), literal=rate),
            ]
    for _, setting, cells in _tasks(runs):
        for arm, name in cells.items():
            for control, rate in RATES.items():
                values = [_validation(setting, run) for run in runs_of(runs, arm, control)]
                if not values and control not in FIRST_RATES:
                    continue
                title = f"{setting.title}, {_monitored(setting)} by learning rate"
                entries.append(estimate_entry(values, title, name, rate))
    return entries


def panels(artifact: Artifact, runs: Sequence[Run]) -> list[Panel]:
    """A panel for each task: what is monitored on the valid split."""
    drawn = []
    for task, setting, cells in _tasks(runs):
        looks = {arm: Look(name, COLOURS[arm.partition("-")[2]]) for arm, name in cells.items()}
        clock = "step" if task in ("captions", "lm") else "epoch"
        where = f"V{_monitored(setting)[1:]}", "valid", "eval", setting.chosen_by
        quantity = Quantity(*where, log=setting.sign > 0, x=AXES[clock], clock=clock)
        drawn += all_panels([run for run in runs if run.arm in cells], looks, {setting.title: {}}, [quantity])
    return drawn


def caution(artifact: Artifact, runs: Sequence[Run]) -> str:
    """Where an arm was not trained at the rate that validation chose."""
    others = [
        name
        for _, setting, cells in _tasks(runs)
        for arm, name in cells.items()
        for rate in {rate_of(run) for run in runs_of(runs, arm)}
        if (best := chosen(runs, arm, setting)) is not None and rate != best
    ]
    return f"Not at the rate that validation chooses: {', '.join(others)}." if others else ""


def chosen(runs: Sequence[Run], arm: str, task: Task) -> float | None:
    """The rate with the best mean of the best evaluations on the valid split; None before the first three have runs."""
    if any(not runs_of(runs, arm, control) for control in FIRST_RATES):
        return None
    losses = {}
    for control in RATES:
        if cell := runs_of(runs, arm, control):
            values = [_validation(task, run) for run in cell]
            finite = [value for value in values if value is not None and math.isfinite(value)]
            diverged = len(finite) < len(values)
            losses[rate_of(cell[0])] = math.inf if diverged else task.sign * statistics.fmean(finite)
    return min(losses, key=losses.__getitem__)


def edge(runs: Sequence[Run], arm: str, task: Task, rate: float) -> str:
    """Says where validation chose the lowest or the highest of an arm's rates, beyond which it may learn better."""
    tried = {rate_of(run) for control in RATES for run in runs_of(runs, arm, control)}
    is_edge = rate == chosen(runs, arm, task) and rate in (min(tried), max(tried))
    return " (at the edge)" if is_edge else ""


def rate_of(run: Run) -> float:
    return float(run.config["optim"]["lr"])


def _tasks(runs: Sequence[Run]) -> Iterator[tuple[str, Task, Mapping[str, str]]]:
    """Tasks that have runs, with the names of their arms."""
    arms = {run.arm for run in runs}
    for task, setting in TASKS.items():
        if cells := {f"{task}-{norm}": name for norm, name in NORMS.items() if f"{task}-{norm}" in arms}:
            yield task, setting, cells


def _monitored(task: Task) -> str:
    return f"validation {'NLL' if task.chosen_by == 'nll' else task.chosen_by.replace('_', ' ')}"


def runs_of(runs: Sequence[Run], arm: str, control: str = "") -> list[Run]:
    return [run for run in runs if (run.arm, run.control) == (arm, control)]


def result(task: Task, run: Run) -> float | None:
    value = None if run.status == "diverged" else at_epoch(run, "test", task.metric, "best")
    return None if value is None else task.factor * value


def _validation(task: Task, run: Run) -> float | None:
    return None if run.status == "diverged" else at_epoch(run, "valid", task.chosen_by, "best")


def _less(value: float | None, other: float | None) -> float | None:
    return None if value is None or other is None else value - other
