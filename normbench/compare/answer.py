"""The numbers of a comparison, computed once for the terminal, JSON and the page; `describe` has their words.

A question has a default for each of its parts. Each cell has a mean with its interval. Cells are compared where their
facets are equal: by pairs of equal seeds where possible, else by Welch's test. All pairs of arms of a group, including
those with the baseline, share Holm's adjustment: the chance of any false word is at most ALPHA. Each group is a family
of its own, and so is each metric.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from normbench.compare import metrics
from normbench.compare.configuration import rank
from normbench.compare.difference import AHEAD, UNDECIDED, Difference, Values, difference_of, judge
from normbench.compare.groups import Cell, Task
from normbench.compare.metrics import Metric
from normbench.draw.tables import Entry, estimate_entry, times_entry
from normbench.errors import NormbenchError, unknown
from normbench.papers.rules import FEWEST
from normbench.runs.record import RunRecord
from normbench.runs.store import FINISHED
from normbench.stats.series import (
    CLOCKS,
    Censored,
    Point,
    Reached,
    Series,
    at_epoch,
    best_step,
    level_at_share,
    series,
    time_to_level,
)
from normbench.stats.statistics import t_interval

END, BEST = "end", "best"
TUNED = "optim.lr"  # each arm is also compared at its own best value of it
SHARE = 0.95
NOTHING = "none"  # the choice of no normalizer: the default baseline
CLOCK_OF = {"epochs": "epoch", "updates": "step"}  # the unit of a budget -> its key in records


# --- the question ----------------------------------------------------------------------------------------------------


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

    def curve(self, run: RunRecord) -> Series:
        """The metric over the budget's clock, as logged."""
        return series(run, *self.where, x=self.clock)

    def time_to_level(self, points: Series) -> Reached | Censored:
        """When a curve, as logged, reaches the level."""
        assert self.level is not None
        sign = -1 if self.metric.rising else 1
        return time_to_level([(x, sign * y) for x, y in points], sign * self.level, self.metric.loss and sign > 0)

    @classmethod
    def of(cls, task: Task, asked: Mapping[str, str]) -> Question:
        """A question from words: split, metric, at, by (keys, comma), against, level; those missing get their default.

        NormbenchError where the task has no such thing, or no record at all.
        """
        logged = metrics.logged([run for run in task.runs if run.records])
        if not logged:
            raise NormbenchError(f"{task.title}: no run has an evaluation yet. See: normbench status")

        def part(key: str, default: str, choices: Collection[str], why: str) -> str:
            value = asked.get(key) or default
            if value not in choices:
                raise unknown(f"{key}={value}: {why}", value, choices)
            return value

        split = part("split", "test" if "test" in logged else next(iter(logged)), logged, f"{task.title} has none.")
        here = {metric.name: metric for metric in logged[split]}
        others = [name for name, found in logged.items() if asked.get("metric", "") in [m.name for m in found]]
        why = f"{task.title} logs no such number on {split}{', but on ' * bool(others)}{', '.join(others)}."
        metric = here[part("metric", metrics.chief(logged[split]).name, here, why)]
        at = part("at", END, (END, BEST), "that is no point of a run.")
        by = tuple(key for key in dict.fromkeys(asked.get("by", "").split(",")) if key)
        for key in by:
            if key not in task.differing:
                raise unknown(f"by={key}: it does not differ between the runs of {task.title}.", key, task.differing)
        by = by or task.arm_keys
        facets = tuple(key for key in task.differing if key not in by)
        question = cls(split, metric, at, by, facets, "", None, CLOCK_OF[task.budget[1]], task.arms(by))
        against, level = asked.get("against", ""), asked.get("level", "")
        against = question.baseline(task, against) if against else question.default_baseline(task)
        return replace(
            question, against=against, level=_level(level, metric) if level else question.near_the_best(task)
        )

    def baseline(self, task: Task, asked: str) -> str:
        """The arm of this name, of this normalizer or, with one key that tells arms apart, of this value."""
        if asked in self.arms.values():
            return asked
        having = {self.arm(cell): None for cell in task.cells if cell.norm == asked}
        if not having and len(self.by) == 1:
            having = {self.arm(cell): None for cell in task.cells if cell.format_value(self.by[0]) == asked}
        if len(having) > 1:
            raise NormbenchError(f"against={asked}: several arms of {task.title} have it: {', '.join(having)}.")
        if not having:
            choices = dict.fromkeys(self.arms.values())
            raise unknown(f"against={asked}: {task.title} has no such arm.", asked, choices)
        return next(iter(having))

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
        if self.metric.rising is None:
            return None
        better = self.metric.better
        found = level_at_share(curves, SHARE, better=better)
        if found is None:
            return None
        best = level_at_share(curves, 1.0, better=better) or found
        rounded = (float(f"{found:.{digits}g}") for digits in range(2, 17))
        return next((level for level in rounded if abs(level - found) <= abs(best - found) / 2), found)


def _level(asked: str, metric: Metric) -> float:
    """A level in the displayed unit, as logged."""
    try:
        level = float(asked.rstrip(" %")) / metric.factor
    except ValueError:
        level = math.nan
    if not math.isfinite(level):
        raise NormbenchError(f"level={asked} is no number.")
    if metric.share and not 0 <= level <= 1:
        raise NormbenchError(f"level={asked}: {metric.title} lies between 0 and 100 %.")
    if metric.loss and level <= 0:
        raise NormbenchError(f"level={asked}: {metric.title} must be above 0.")
    return level


def has_logged(run: RunRecord, question: Question, at: str = "") -> bool:
    """Whether the run logs what `value` reads, finite or not: one that does not is no diverged one."""
    monitor = run.monitor
    last = (at or question.at) == END
    return bool(question.curve(run)) and (last or bool(series(run, monitor["split"], "eval", monitor["metric"])))


def value(run: RunRecord, question: Question, at: str = "", variant: str | None = None) -> float | None:
    """The number of one run in the unit of the page; None where it diverged, is unfinished or has no number there.

    variant: words that name another evaluation than the default one, as `stats.series.at_epoch` reads them.
    """
    if run.status != "done":
        return None
    split, mode, metric = question.where
    when = "last" if (at or question.at) == END else "best"
    found = at_epoch(run, split, metric, when, variant, mode)
    return None if found is None or not math.isfinite(found) else found * question.metric.factor


def difference_curve(first: Cell, second: Cell, question: Question, clock: str) -> list[Point]:
    """first − second over pairs of equal seeds, as logged, with its interval, at every evaluation that both have."""
    seconds = {run.seed: run for run in second.done}
    pairs = [
        [dict(series(run, *question.where, x=clock)) for run in (run, seconds[run.seed])]
        for run in first.done
        if run.seed in seconds
    ]
    points = []
    for place in sorted({place for a, b in pairs for place in a.keys() & b.keys()}):
        gaps = [a[place] - b[place] for a, b in pairs if place in a and place in b]
        finite = [gap for gap in gaps if math.isfinite(gap)]
        estimate = t_interval(finite)
        points.append(Point(place, estimate.mean, estimate.interval, estimate.n, len(gaps) - len(finite)))
    return points


# --- all arms --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """The numbers of one cell, in the unit of the page. `values`: the metric by seed."""

    cell: Cell
    arm: str
    values: Values
    at: Entry  # at the asked point
    best: Entry  # at the best value of the monitored metric
    time: Entry | None  # to the level
    seconds_per_step: float | None
    difference: Difference | None = None  # against the baseline

    @property
    def diverged(self) -> int:
        """Runs that ended without a finite number; also those in which only the last evaluation was not finite."""
        return self.at.diverged

    @property
    def unlogged(self) -> bool:
        """Whether its runs are done and log no such number: it is not compared."""
        return self.lacks(self.at)

    def lacks(self, entry: Entry) -> bool:
        return bool(self.cell.done) and entry.n + entry.diverged == 0

    @property
    def lost(self) -> bool:
        """Whether all its runs diverged, and there are enough of them for a verdict."""
        return self.diverged == len(self.cell.runs) >= FEWEST


@dataclass(frozen=True)
class Group:
    """Cells that may be compared, the best first. `pairs`: the family of tests behind all words. `rates`: where each
    arm is at its own best learning rate, those that were tried, by arm."""

    place: str
    rows: Sequence[Row]
    pairs: Sequence[Difference] = ()
    rates: Mapping[str, Sequence[float]] = field(default_factory=dict)

    @property
    def tuned(self) -> bool:
        return bool(self.rates)

    @property
    def against(self) -> list[Difference]:
        """Each arm against the baseline: the pairs, reversed where the baseline is the first."""
        return [row.difference for row in self.rows if row.difference]

    @cached_property
    def lost(self) -> list[str]:
        """The arms whose runs all diverged: more seeds would decide nothing."""
        return [row.arm for row in self.rows if row.lost]

    def _alive(self, differences: Sequence[Difference]) -> list[Difference]:
        return [d for d in differences if not {d.first, d.second} & {*self.lost}]

    @cached_property
    def best_against_others(self) -> list[Difference]:
        return [pair for pair in self._alive(self.pairs) if pair.first == self.rows[0].arm]

    @cached_property
    def winner(self) -> str:
        """The best arm, if it is ahead of all others; else ""."""
        words = {pair.word for pair in self.best_against_others}
        return self.rows[0].arm if words == {AHEAD} else ""

    @cached_property
    def front(self) -> list[str]:
        """The arms that no other is ahead of."""
        behind = {d.second if d.word == AHEAD else d.first for d in self.pairs if d.word != UNDECIDED}
        return [row.arm for row in self.rows if row.arm not in behind | {*self.lost} and not row.unlogged]

    @cached_property
    def open(self) -> list[Difference]:
        """The undecided pairs: each arm against the baseline, and the best arm against the others in front."""
        baseline = {d.second for d in self.against}
        lead = [d for d in self.best_against_others if d.second in self.front and not baseline & {d.first, d.second}]
        return [d for d in (*self._alive(self.against), *lead) if d.word == UNDECIDED]


@dataclass(frozen=True)
class Comparison:
    """`groups`: one for each combination of facets, then those with each arm at its own best learning rate."""

    task: Task
    question: Question
    groups: Sequence[Group]


def compare(task: Task, question: Question) -> Comparison:
    """Compare the cells of a task by facets, and with several learning rates also each arm at its own best one."""
    places: dict[str, list[Cell]] = {}
    for cell in task.cells:
        places.setdefault(question.place(cell), []).append(cell)
    groups = [_group(cells, place, question) for place, cells in places.items()]
    return Comparison(task, question, [*groups, *(_tuned(task, question) if TUNED in question.facets else ())])


def _group(cells: Sequence[Cell], place: str, question: Question, rates: Mapping[str, Any] | None = None) -> Group:
    rows = [_row(cell, question) for cell in cells]
    rising = question.metric.rising
    sign = -1 if rising else 1
    rows.sort(key=lambda row: (row.at.mean is None, sign * (row.at.mean or 0.0)))
    pairs = judge(
        [
            difference_of(a.values, b.values, (a.arm, b.arm), rising, (a.diverged, b.diverged))
            for a, b in itertools.combinations([row for row in rows if not row.unlogged], 2)
        ]
    )
    against = {d.first: d for pair in pairs for d in (pair, pair.reversed) if d.second == question.against}
    return Group(place, [replace(row, difference=against.get(row.arm)) for row in rows], pairs, rates or {})


def _row(cell: Cell, question: Question) -> Row:
    lost: list[float | None] = [None] * len(cell.diverged)
    done = [run for run in cell.done if question.curve(run)]
    values = {run.seed: value(run, question) for run in cell.runs}
    time = None
    if question.level is not None:
        times = [question.time_to_level(points) for run in done if (points := question.curve(run))]
        time = times_entry(times, len(lost), "", "", "", CLOCKS[question.clock])

    def entry(at: str) -> Entry:
        found = [*(value(run, question, at) for run in done if has_logged(run, question, at)), *lost]
        return estimate_entry(found, "", "", "", question.metric.unit)

    return Row(
        cell,
        question.arm(cell),
        values,
        entry(question.at),
        entry(BEST),
        time,
        statistics.median(cell.paces) if cell.paces else None,
    )


def _tuned(task: Task, question: Question) -> list[Group]:
    """Groups with each arm at the learning rate that is best by the monitored metric."""
    question = replace(question, facets=tuple(key for key in question.facets if key != TUNED))
    places: dict[str, dict[str, list[Cell]]] = {}
    for cell in task.cells:
        places.setdefault(question.place(cell), {}).setdefault(question.arm(cell), []).append(cell)
    groups = []
    for place, arms in places.items():
        chosen = {arm: min(cells, key=_monitored) for arm, cells in arms.items() if len(cells) > 1}
        if len(chosen) > 1:
            names = {arm: f"{arm} {cell.label([TUNED])}".strip() for arm, cell in chosen.items()}
            own = {cell.key: names[arm] for arm, cell in chosen.items()}
            asked = replace(question, arms={**question.arms, **own}, against=names.get(question.against, ""))
            rates = {arm: [cell.values[TUNED] for cell in cells] for arm, cells in arms.items()}
            groups.append(_group(list(chosen.values()), place, asked, rates))
    return groups


def _monitored(cell: Cell) -> tuple[int, float]:
    """Sort key: lost runs, then the mean of the monitored metric at each run's best, lower is better."""
    values = []
    for run in cell.done:
        monitor, step = run.monitor, best_step(run)
        curve = dict(series(run, monitor["split"], "eval", monitor["metric"], x="step"))
        if step is not None and math.isfinite(curve.get(step, math.nan)):
            values.append(-curve[step] if monitor["goal"] == "max" else curve[step])
    lost = len(cell.runs) - len(values)
    return lost, statistics.fmean(values) if values else math.inf
