"""The answer to a question: a mean with its interval per cell, its difference from the baseline, and one sentence.

Cells are compared where their facets are equal, by `difference`. All pairs of arms of a group, including those with the
baseline, share Holm's adjustment: the chance of any false word is at most ALPHA. Each group is a family of its own, and
so is each metric.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from normbench.compare import configuration, metrics
from normbench.compare.difference import (
    AHEAD,
    BEHIND,
    UNDECIDED,
    Difference,
    as_json,
    describe_difference,
    difference_of,
    judge,
)
from normbench.compare.groups import Cell, Task
from normbench.compare.question import BEST, END, TUNED, Question
from normbench.draw.tables import Entry, estimate_entry, times_entry
from normbench.papers.rules import ALPHA, FEWEST
from normbench.runs.record import RunRecord
from normbench.stats.series import CLOCKS, Point, at_epoch, best_step, series
from normbench.stats.statistics import t_interval

UNEVEN = 1.5  # slowest seed of an arm / fastest: above it, the machine was busy with other work too


@dataclass(frozen=True)
class Row:
    """The numbers of one cell, in the unit of the page. `values`: the metric by seed, None without a number."""

    cell: Cell
    arm: str
    values: Mapping[int, float | None]
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
    def lost(self) -> bool:
        """Whether all its runs diverged, and there are enough of them for a verdict."""
        return self.diverged == len(self.cell.runs) >= FEWEST


@dataclass(frozen=True)
class Group:
    """Cells that may be compared, the best first. `pairs`: the family of tests behind all words.
    `tuned`: each arm at its own best learning rate."""

    place: str
    rows: Sequence[Row]
    pairs: Sequence[Difference] = ()
    tuned: bool = False

    @cached_property
    def lost(self) -> list[str]:
        """The arms whose runs all diverged: more seeds would decide nothing."""
        return [row.arm for row in self.rows if row.lost]

    @cached_property
    def best_against_others(self) -> list[Difference]:
        """The best arm against each of the others, without lost arms."""
        best = self.rows[0].arm
        return [pair for pair in self.pairs if pair.first == best and not {best, pair.second} & {*self.lost}]

    @cached_property
    def winner(self) -> str:
        """The best arm, if it is ahead of all others; else ""."""
        return (
            self.rows[0].arm
            if self.best_against_others and all(pair.word == AHEAD for pair in self.best_against_others)
            else ""
        )

    @property
    def against(self) -> list[Difference]:
        """Each arm against the baseline: the pairs, reversed where the baseline is the first."""
        return [row.difference for row in self.rows if row.difference]

    @property
    def front(self) -> list[str]:
        """The arms that no other is ahead of."""
        behind = {d.second for d in self.pairs if d.word == AHEAD} | {d.first for d in self.pairs if d.word == BEHIND}
        behind |= {*self.lost}
        return [row.arm for row in self.rows if row.arm not in behind]

    @property
    def open(self) -> list[Difference]:
        """The undecided pairs: each arm against the baseline, and the best arm against the others in front."""
        open_pairs = [d for d in self.against if d.word == UNDECIDED and not {d.first, d.second} & {*self.lost}]
        compared = {frozenset((d.first, d.second)) for d in self.against}
        front = self.front
        lead = [
            pair
            for pair in self.pairs
            if pair.word == UNDECIDED and pair.first == self.rows[0].arm and pair.second in front
        ]
        return [*open_pairs, *(pair for pair in lead if frozenset((pair.first, pair.second)) not in compared)]

    def sentences(self, question: Question) -> tuple[list[str], list[str]]:
        """Who wins and by how much, or that it is open; then a phrase for each further comparison."""
        unit = question.metric.step_unit
        counts = [row.at.n for row in self.rows]
        if max(counts, default=0) == 0:
            return ["Every run diverged." if all(row.lost for row in self.rows) else "No run is done yet."], []
        how = " (each at its own best learning rate)" if self.tuned else ""
        if len(self.rows) < 2:
            return [], []
        if max(counts) < FEWEST:
            return [f"No verdict{how}: n = {max(counts)}, and a verdict needs {FEWEST} seeds."], []
        if self.winner:
            others = [f"{d.second} ({d.text(unit)})" for d in self.best_against_others]
            first = f"Winner{how}: {self.winner}, ahead of {_join(others)}."
        else:
            few = [row.arm for row in self.rows if row.at.n < FEWEST and not row.lost]
            front = [arm for arm in self.front if arm not in few]
            first = f"No winner{how}: undecided between {_join(front)}."
            if len(front) == 1:
                why = "adjusted for all pairs not ahead of every arm"
                if few:
                    why = f"{_join(few)} {'has' if len(few) == 1 else 'have'} fewer than {FEWEST} seeds"
                first = f"No winner{how}: {front[0]} is in front, but {why}."
        decided = [
            d
            for row in self.rows
            if (d := row.difference) and d.word != UNDECIDED and self.winner not in (d.first, d.second)
        ]
        lost = [f"Every run of {_join(self.lost)} diverged."] if self.lost else []
        return [first, *lost], [*(describe_difference(d, unit) for d in decided), *_open(self.open, unit)]

    def sentence(self, question: Question) -> str:
        """The same in one line."""
        first, rest = self.sentences(question)
        return " ".join([*first, *([f"{'; '.join(rest)}."] if rest else [])])


@dataclass(frozen=True)
class Answer:
    """`groups`: one for each combination of facets, then those with each arm at its own best learning rate."""

    task: Task
    question: Question
    groups: Sequence[Group]
    notes: Sequence[str] = field(default_factory=tuple)

    @property
    def sentence(self) -> str:
        sentences = [
            f"{f'{group.place}: ' if group.place else ''}{group.sentence(self.question)}"
            for group in self.groups
            if len(group.rows) > 1
        ]
        return " ".join(sentences)

    @property
    def by(self) -> str:
        """The metric that chooses the best evaluation of a run: `by valid NLL`."""
        return f"by {chosen_by(self.task)}"

    @property
    def heading(self) -> str:
        """The title of the table: `test error at the end, % · mean and 95 % interval over seeds · lower is better`."""
        q = self.question
        when = "at the end" if q.at == END else f"at the best {self.by}"
        unit = f", {q.metric.unit}" if q.metric.unit else ""
        better = "higher" if q.metric.rising else "lower"
        return f"{q.split} {q.metric.title} {when}{unit} · mean and 95 % interval over seeds · {better} is better"

    def as_json(self, pairs: bool = True) -> dict[str, Any]:
        """All of it as JSON values, NaN as null. pairs: include each arm against each other arm."""
        q = self.question
        return {
            "task": {"key": self.task.key, "title": self.task.title},
            "question": {
                "split": q.split, "metric": q.metric.name, "at": q.at, "by": list(q.by), "facets": list(q.facets),
                "against": q.against, "level": None if q.level is None else q.level * q.metric.factor,
                "clock": q.clock, "unit": q.metric.unit, "better": "higher" if q.metric.rising else "lower",
            },
            "heading": self.heading,
            "sentence": self.sentence,
            "groups": [
                {
                    "place": group.place,
                    "tuned": group.tuned,
                    "winner": group.winner,
                    "sentence": group.sentence(q),
                    "rows": [_row_json(row) for row in group.rows],
                    **({"pairs": [as_json(pair) for pair in group.pairs]} if pairs else {}),
                }
                for group in self.groups
            ],
            "notes": list(self.notes),
        }  # fmt: skip


def answer(task: Task, question: Question) -> Answer:
    """Compare the cells of a task by facets, and with several learning rates also each arm at its own best one."""
    places: dict[str, list[Cell]] = {}
    for cell in task.cells:
        places.setdefault(question.place(cell), []).append(cell)
    groups = [_group(cells, place, question) for place, cells in places.items()]
    tuned, of_rates = _tuned(task, question) if TUNED in question.facets else ([], [])
    groups += tuned
    return Answer(task, question, groups, [*_notes(task, question, groups), *of_rates])


def chosen_by(task: Task) -> str:
    """The metric that says when a run is at its best: `valid NLL`."""
    monitor = task.monitored
    return metrics.format_metric(monitor["split"], monitor["metric"]) if monitor else "what each run monitors"


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


def _group(cells: Sequence[Cell], place: str, question: Question, tuned: bool = False) -> Group:
    rows = [_row(cell, question) for cell in cells]
    lost = {row.arm: row.diverged for row in rows}
    rising = question.metric.rising
    sign = -1 if rising else 1
    rows.sort(key=lambda row: (row.at.mean is None, sign * (row.at.mean or 0.0)))
    pairs = judge(
        [difference_of(a.values, b.values, (a.arm, b.arm)) for a, b in itertools.combinations(rows, 2)], lost, rising
    )
    against = {d.first: d for pair in pairs for d in (pair, pair.reversed) if d.second == question.against}
    return Group(place, [replace(row, difference=against.get(row.arm)) for row in rows], pairs, tuned)


def _row(cell: Cell, question: Question) -> Row:
    done, lost = cell.done, [None] * len(cell.diverged)
    values = {run.seed: value(run, question) for run in cell.runs}
    best = [value(run, question, BEST) for run in done]
    time = None
    if question.level is not None:
        times = [question.time_to_level(points) for run in done if (points := question.curve(run))]
        time = times_entry(times, len(lost), "", "", "", CLOCKS[question.clock])
    paces = _paces(cell)
    unit = question.metric.unit
    return Row(
        cell,
        question.arm(cell),
        values,
        estimate_entry([*(values[run.seed] for run in done), *lost], "", "", "", unit),
        estimate_entry([*best, *lost], "", "", "", unit),
        time,
        statistics.median(paces) if paces else None,
    )


def _paces(cell: Cell) -> list[float]:
    """Seconds an update of each run."""
    return [run.seconds / run.steps for run in cell.done if run.seconds and run.steps]


def _tuned(task: Task, question: Question) -> tuple[list[Group], list[str]]:
    """Groups with each arm at the learning rate that is best by the monitored metric, and notes on what is unfair."""
    facets = tuple(key for key in question.facets if key != TUNED)
    without_rate = replace(question, facets=facets, against="")
    places: dict[str, dict[str, list[Cell]]] = {}
    for cell in task.cells:
        places.setdefault(without_rate.place(cell), {}).setdefault(question.arm(cell), []).append(cell)
    groups, notes = [], []
    for place, arms in places.items():
        chosen = {arm: min(cells, key=_monitored) for arm, cells in arms.items() if len(cells) > 1}
        if len(chosen) < 2:
            continue
        rates = {arm: cell.label([TUNED]) for arm, cell in chosen.items()}
        names = {cell.key: f"{arm} {rates[arm]}".strip() for arm, cell in chosen.items()}
        base = chosen.get(question.against)
        asked = replace(without_rate, arms={**question.arms, **names}, against=names[base.key] if base else "")
        groups.append(_group(list(chosen.values()), place, asked, tuned=True))
        where = f"{place}: " if place else ""
        counts = {arm: len(cells) for arm, cells in arms.items()}
        if len(set(counts.values())) > 1:
            tried = ", ".join(f"{count} of {arm}" for arm, count in counts.items())
            notes.append(f"{where}Learning rates tried: {tried}. Whoever may choose among more looks better.")
        edge = []
        for arm, cell in chosen.items():
            lr = [other.values[TUNED] for other in arms[arm]]
            if cell.values[TUNED] in (min(lr), max(lr)):  # a better rate may lie beyond
                edge.append(arm)
        if edge:
            notes.append(f"{where}The best learning rate of {_join(edge)} is the first or last of those tried.")
    if groups and task.monitored and task.monitored["split"] == question.split:
        notes.append(f"Learning rates are chosen by {chosen_by(task)}, the split that is shown: optimistic.")
    return groups, notes


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


def _notes(task: Task, question: Question, groups: Sequence[Group]) -> list[str]:
    """Warnings to read before the numbers are believed."""
    notes = [
        f"{cell.norm} has several runs of seed {_join([*map(str, cell.repeated_seeds)])}: of one configuration, "
        "made by other code. One counts, and other seeds may be of either: delete those of the code that is gone."
        for cell in task.cells
        if cell.repeated_seeds
    ]
    if longer := sum(bool(run.cut_from) for run in task.runs):
        words = f"{longer} runs are longer ones" if longer > 1 else "One run is a longer one"
        notes.append(f"{words}, cut to {task.length}.")
    if unfinished := [run for cell in task.cells for run in cell.unfinished]:
        counts = {state: sum(run.status == state for run in unfinished) for state in {run.status for run in unfinished}}
        words = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
        notes.append(f"Not counted: {words}.")
    if diverged := sum(row.diverged for group in groups if not group.tuned for row in group.rows):
        notes.append(f"{diverged} diverged: means are of the others, and an arm that lost runs is never ahead.")
    compared = sum(len(group.rows) > 1 for group in groups)
    if compared > 1:
        notes.append(f"{compared} groups are judged separately, each at {100 * ALPHA:g} %.")
    if question.at == BEST and task.monitored and task.monitored["split"] == question.split:
        notes.append(f"The best is chosen by {chosen_by(task)}, the split that is shown: optimistic.")
    for key, many in (("device", "devices"), ("processor", "processors")):
        found = {str(run.environment.get(key, "")) for run in task.runs if run.environment}
        if len(found) > 1:
            notes.append(f"Trained on different {many} ({', '.join(sorted(found))}): seconds do not compare.")
            break
    else:
        spread = max((max(paces) / min(paces) for cell in task.cells if (paces := _paces(cell))), default=1)
        if spread > UNEVEN:
            notes.append(f"Seeds of one arm took up to {spread:.2g} times as long as others, at different loads: "
                         "seconds do not compare.")  # fmt: skip
    return notes


def _open(differences: Sequence[Difference], unit: str) -> list[str]:
    """The undecided pairs and why; pairs with the same reason and an arm in common share one phrase."""
    alike: dict[tuple[str, str], list[Difference]] = {}
    for d in differences:
        alike.setdefault((d.second, d.because(unit)), []).append(d)
    merged: dict[tuple[str, str], list[Difference]] = {}
    for (second, why), group in alike.items():
        merged.setdefault((group[0].first if len(group) == 1 else f"against {second}", why), []).extend(group)
    found = []
    for (_, why), group in merged.items():
        ours, theirs = (list(dict.fromkeys(names)) for names in zip(*((d.first, d.second) for d in group), strict=True))
        words = f"{_join(ours)} against {_join(theirs)} {'is' if len(ours) == 1 else 'are'} undecided"
        found.append(f"{words} ({why})" if why else words)
    return found


def _join(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _entry_json(entry: Entry | None) -> dict[str, Any] | None:
    if entry is None:
        return None
    return {
        "n": entry.n, "mean": entry.mean, "interval": entry.interval, "unit": entry.unit, "diverged": entry.diverged,
        "censored": entry.censored, "at_least": entry.at_least, "text": entry.text(),
    }  # fmt: skip


def _row_json(row: Row) -> dict[str, Any]:
    return {
        "cell": row.cell.key,
        "arm": row.arm,
        "values": {key: configuration.text(item) for key, item in row.cell.values.items()},
        "seeds": [
            {"run": run.id, "seed": run.seed, "status": run.status, "value": row.values[run.seed], "source": run.source}
            for run in row.cell.runs
        ],
        "at": _entry_json(row.at),
        "best": _entry_json(row.best),
        "time": _entry_json(row.time),
        "diverged": row.diverged,
        "unfinished": len(row.cell.unfinished),
        "seconds_per_step": row.seconds_per_step,
        "difference": as_json(row.difference) if row.difference else None,
    }
