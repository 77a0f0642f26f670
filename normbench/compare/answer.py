"""The numbers of a comparison, computed once for the terminal, JSON and the page; `describe` has their words.

Each cell has a mean with its interval. Cells are compared where their facets are equal: by pairs where both have the
same seeds, else by Welch's test over all runs. All pairs of arms of a group, including those with the baseline, share
Holm's adjustment: the chance of any false word is at most ALPHA. Each group is a family of its own, and so is each
metric.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from normbench.compare.difference import AHEAD, UNDECIDED, Difference, Values, difference_of, judge
from normbench.compare.groups import Cell, Task
from normbench.compare.question import BEST, TUNED, Question, has_logged, value
from normbench.draw.tables import Entry, Forms, estimate_entry, times_entry
from normbench.papers.rules_file import FEWEST
from normbench.stats.series import CLOCKS, best_step, series


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

    @cached_property
    def forms(self) -> Forms:
        """The formats of all means, in tables and in sentences."""
        rows = [row for group in self.groups if not group.tuned for row in group.rows]
        return Forms.among((row.at.mean, row.at.interval) for row in rows if row.at.mean is not None)

    @cached_property
    def difference_forms(self) -> Forms:
        """The formats of all differences, in tables and in sentences."""
        pairs = [pair for group in self.groups for pair in group.pairs]
        return Forms.among((pair.mean, pair.interval) for pair in pairs if pair.mean is not None)


def compare(task: Task, question: Question) -> Comparison:
    """Compare the cells of a task by facets, and with several learning rates also each arm at its own best one."""
    places: dict[str, list[Cell]] = {}
    for cell in sorted(task.cells, key=question.order):
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
    if why := question.why_none(cells):
        pairs = [replace(pair, word=UNDECIDED, why=why) for pair in pairs]
    against = {d.first: d for pair in pairs for d in (pair, pair.reversed) if d.second == question.against}
    return Group(place, [replace(row, difference=against.get(row.arm)) for row in rows], pairs, rates or {})


def _row(cell: Cell, question: Question) -> Row:
    done = [run for run in cell.done if question.curve(run)]
    values = {run.seed: value(run, question) for run in cell.runs}
    pace = statistics.median(cell.paces) if cell.paces else None
    time = None
    if question.level is not None:
        times = [question.time_to_level(question.curve(run)) for run in done]
        time = times_entry(times, len(cell.diverged), "", "", "", CLOCKS[question.clock])

    def entry(at: str) -> Entry:
        numbers = [value(run, question, at) for run in done if has_logged(run, question, at)]
        lost = [None for run in cell.diverged if at != BEST or run.monitor["metric"]]
        return estimate_entry([*numbers, *lost], "", "", "", question.metric.unit)

    return Row(cell, question.arm(cell), values, entry(question.at), entry(BEST), time, pace)


def _tuned(task: Task, question: Question) -> list[Group]:
    """Groups with each arm at the learning rate that is best by the monitored metric."""
    question = replace(question, facets=tuple(key for key in question.facets if key != TUNED))
    places: dict[str, dict[str, list[Cell]]] = {}
    for cell in sorted(task.cells, key=question.order):
        places.setdefault(question.place(cell), {}).setdefault(question.arm(cell), []).append(cell)
    groups = []
    for place, arms in places.items():
        chosen = {arm: min(cells, key=_monitored) for arm, cells in arms.items() if len(cells) > 1}
        if len(chosen) > 1:
            names = {arm: f"{arm} {cell.label([TUNED])}".strip() for arm, cell in chosen.items()}
            arms_of = {**question.arms, **{cell.key: names[arm] for arm, cell in chosen.items()}}
            of_tuned = replace(question, arms=arms_of, against=names.get(question.against, ""))
            rates = {arm: [cell.values[TUNED] for cell in cells] for arm, cells in arms.items()}
            groups.append(_group(list(chosen.values()), place, of_tuned, rates))
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
