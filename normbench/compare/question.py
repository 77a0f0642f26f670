"""What is compared: split, metric and time, which keys tell arms apart, and the baseline; each has a default."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from normbench.compare import metrics
from normbench.compare.configuration import rank
from normbench.compare.difference import CHOSEN, LEAST, SHORT
from normbench.compare.groups import Cell, Task
from normbench.compare.metrics import Metric
from normbench.errors import BadInput, unknown
from normbench.runs.run import FINISHED, Run
from normbench.stats.series import Censored, Point, Reached, Series, at_epoch, level_at_share, series, time_to_level
from normbench.stats.statistics import t_interval, welch

END, BEST = "end", "best"
TUNED = "optim.lr"  # each arm is also compared at its own best value of it
SHARE = 0.95
NOTHING = "none"  # the choice of no normalizer: the default baseline
CLOCK_OF = {"epochs": "epoch", "updates": "step"}  # the unit of a budget -> its key in records


@dataclass(frozen=True)
class Question:
    """`at`: the last evaluation (`end`) or the best of what the run monitors (`best`); `by`: the keys that tell arms
    apart, `facets` the others that differ; `against`: the baseline, "" with one arm;
    `level`: in the logged unit, None where no curve improves; `arms`: their names by the cells' keys."""

    split: str
    metric: Metric
    at: str
    by: tuple[str, ...]
    facets: tuple[str, ...]
    against: str
    level: float | None
    clock: str
    arms: Mapping[str, str]

    @property
    def where(self) -> tuple[str, str, str]:
        return self.split, "eval", self.metric.name

    def arm(self, cell: Cell) -> str:
        """The arm that a cell is of: `layer`, or `layer norm.eps=0.1` where more than the normalizer differs."""
        return self.arms[cell.key]

    def place(self, cell: Cell) -> str:
        """The facets of a cell: only cells of one place are compared."""
        return cell.label(self.facets)

    def order(self, cell: Cell) -> tuple[Any, ...]:
        """Sort key of a cell: the values of its facets, numbers by size."""
        return tuple(rank(cell.values.get(key)) for key in self.facets)

    def curve(self, run: Run) -> Series:
        """The metric over the budget's clock, as logged."""
        return series(run, *self.where, x=self.clock)

    def time_to_level(self, points: Series) -> Reached | Censored:
        """When a curve, as logged, reaches the level."""
        assert self.level is not None
        sign = -1 if self.metric.rising else 1
        return time_to_level([(x, sign * y) for x, y in points], sign * self.level, self.metric.loss and sign > 0)

    def why_none(self, cells: Sequence[Cell]) -> str:
        """Why no pair of these cells has a word, whatever its test says; "" where pairs may have one."""
        runs = [run for cell in cells for run in cell.runs]
        if self.at == BEST:
            # the noisier an arm's evaluations, the better the best of them: most verdicts would be false
            return CHOSEN if any(run.monitor["split"] == self.split for run in runs) else ""
        ends = [curve[-1][0] for run in runs if run.logged and run.status == "done" and (curve := self.curve(run))]
        return SHORT if ends and min(ends) < LEAST * statistics.median(ends) else ""

    @classmethod
    def of(cls, task: Task, query: Mapping[str, str]) -> Question:
        """A question from words: split, metric, better, at, by (keys, comma), against, level; each has a default.

        NormbenchError where the task has no such thing, or no record at all.
        """
        logged = metrics.logged([run for run in task.runs if run.records])
        if not logged:
            raise BadInput(f"{task.title}: no run has an evaluation yet. See: normbench status")

        def part(key: str, default: str, choices: Collection[str], why: str) -> str:
            value = query.get(key) or default
            if value not in choices:
                raise unknown(f"{key}={value}: {why}", value, choices)
            return value

        held_out = (name for name in logged if name != "train")
        first = next(name for name in ("test", task.monitored.get("split"), *held_out, "train") if name in logged)
        split = part("split", first, logged, f"{task.title} has none.")
        by_name = {metric.name: metric for metric in logged[split]}
        others = [name for name, entries in logged.items() if query.get("metric", "") in [m.name for m in entries]]
        why = f"{task.title} logs no such number on {split}{', but on ' * bool(others)}{', '.join(others)}."
        metric = by_name[part("metric", metrics.chief(logged[split]).name, by_name, why)]
        if better := query.get("better", ""):
            if metric.better not in ("", better):
                raise BadInput(f"better={better}: the runs declare that a {metric.better} {metric.name} is better.")
            metric = replace(metric, rising=better == "higher")
        elif all(run.logged for run in task.runs):  # a scalar of one's own is declared by the model, or is none
            metric = metrics.guessed(metric)
        at = part("at", END, (END, BEST), "that is no point of a run.")
        if at == BEST and not task.has_best:
            raise BadInput(f"at={BEST}: {task.title} declares no metric that chooses the best.")
        by = tuple(key for key in dict.fromkeys(query.get("by", "").split(",")) if key)
        for key in by:
            if key not in task.differing:
                raise unknown(f"by={key}: it does not differ between the runs of {task.title}.", key, task.differing)
        by = by or task.arm_keys
        facets = tuple(key for key in task.differing if key not in by)
        question = cls(split, metric, at, by, facets, "", None, CLOCK_OF[task.budget[1]], task.arms(by))
        against, level = query.get("against", ""), query.get("level", "")
        against = question.baseline(task, against) if against else question.default_baseline(task)
        return replace(
            question, against=against, level=_level(level, metric) if level else question.near_the_best(task)
        )

    def baseline(self, task: Task, name: str) -> str:
        """The arm of this name, of this normalizer or, with one key that tells arms apart, of this value."""
        if name in self.arms.values():
            return name
        matching = {self.arm(cell): None for cell in task.cells if cell.norm == name}
        if not matching and len(self.by) == 1:
            matching = {self.arm(cell): None for cell in task.cells if cell.format_value(self.by[0]) == name}
        if len(matching) > 1:
            raise BadInput(f"against={name}: several arms of {task.title} have it: {', '.join(matching)}.")
        if not matching:
            choices = dict.fromkeys(self.arms.values())
            raise unknown(f"against={name}: {task.title} has no such arm.", name, choices)
        return next(iter(matching))

    def default_baseline(self, task: Task) -> str:
        """The arm without a normalizer, else the first; not one whose runs all ended without a number."""
        if len({*self.arms.values()}) == 1:
            return ""
        alive = [
            cell
            for cell in task.cells
            if any(run.status not in FINISHED or value(run, self, END) is not None for run in cell.runs)
        ]
        cells = alive or task.cells
        options = [key for key in self.by if "." in key]  # in one order, whoever lists the cells

        def order(cell: Cell) -> tuple[Any, ...]:
            return self.arm(cell) != NOTHING, cell.norm != NOTHING, *(rank(cell.values.get(key)) for key in options)

        return self.arm(min(cells, key=order))

    def near_the_best(self, task: Task) -> float | None:
        """The level at SHARE of the way of all curves, in as few digits as possible, so that some curve reaches it."""
        curves = [self.curve(run) for run in task.runs if run.records and run.status == "done"]
        better = self.metric.better
        target = level_at_share(curves, SHARE, better=better) if better else None
        if target is None:
            return None
        best = level_at_share(curves, 1.0, better=better) or target
        rounded = (float(f"{target:.{digits}g}") for digits in range(2, 17))
        return next((level for level in rounded if abs(level - target) <= abs(best - target) / 2), target)


def _level(word: str, metric: Metric) -> float:
    """A level in the displayed unit, as logged."""
    try:
        level = float(word.rstrip(" %")) / metric.factor
    except ValueError:
        level = math.nan
    if not math.isfinite(level):
        raise BadInput(f"level={word} is no number.")
    if metric.share and not 0 <= level <= 1:
        raise BadInput(f"level={word}: {metric.title} lies between 0 and 100 %.")
    if metric.loss and level <= 0:
        raise BadInput(f"level={word}: {metric.title} must be above 0.")
    return level


def has_logged(run: Run, question: Question, at: str = "") -> bool:
    """Whether the run logs what `value` reads, finite or not: one that does not is no diverged one."""
    if run.logged:
        return _point(run, question, at or question.at) is not None
    monitor = run.monitor
    last = (at or question.at) == END
    return bool(question.curve(run)) and (last or bool(series(run, monitor["split"], "eval", monitor["metric"])))


def value(run: Run, question: Question, at: str = "", variant: str | None = None) -> float | None:
    """The number of one run in the unit of the page; None where it diverged, is unfinished or has no number there.

    variant: words that name another evaluation than the default one, as `stats.series.at_epoch` reads them.
    """
    if run.status != "done":
        return None
    number = _point(run, question, at or question.at, variant)
    return None if number is None or not math.isfinite(number) else number * question.metric.factor


def _point(run: Run, question: Question, at: str, variant: str | None = None) -> float | None:
    """As logged; of a run of another program the end is that of the curve: each may have its own."""
    if run.logged and at == END:
        return next((y for _, y in reversed(question.curve(run))), None)
    split, mode, metric = question.where
    return at_epoch(run, split, metric, "last" if at == END else "best", variant, mode)


def difference_curve(first: Cell, second: Cell, question: Question, clock: str) -> list[Point]:
    """first − second, as logged, with its interval, at every evaluation that both have: over pairs of equal seeds where
    both have the same seeds, else by Welch over all runs, as `difference_of`."""
    sides = []  # of each cell the curves by seed
    for cell in (first, second):
        sides.append({run.seed: dict(series(run, *question.where, x=clock)) for run in cell.done})
    is_paired = sides[0].keys() == sides[1].keys()
    evaluated = [{place for curve in side.values() for place in curve} for side in sides]
    points = []
    for place in sorted(evaluated[0] & evaluated[1]):
        a, b = ({seed: curve[place] for seed, curve in side.items() if place in curve} for side in sides)
        if is_paired:
            gaps = [a[seed] - b[seed] for seed in a.keys() & b.keys()]
            finite = sorted(gap for gap in gaps if math.isfinite(gap))
            estimate, lost = t_interval(finite), len(gaps) - len(finite)
        else:
            numbers = [sorted(filter(math.isfinite, side.values())) for side in (a, b)]
            estimate = welch(numbers[0], numbers[1])
            lost = len(a) + len(b) - len(numbers[0]) - len(numbers[1])
        points.append(Point(place, estimate.mean, estimate.interval, estimate.n, lost))
    return points
