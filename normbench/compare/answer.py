"""What runs say of a question: per cell a mean with its interval, against the baseline a difference, and one sentence.

Cells are compared where their facets are equal, arms as `difference` does. All pairs of arms of a group, those with the
baseline among them, share Holm's adjustment: the chance of any false word is at most ALPHA. Each group is a family by
itself, and so is each metric that is asked for.
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
    held_against,
    judge,
)
from normbench.compare.groups import Cell, Task
from normbench.compare.question import BEST, END, TUNED, Question
from normbench.draw.tables import Entry, estimate_entry, times_entry
from normbench.papers.rules import ALPHA, FEWEST
from normbench.runs.record import RunRecord
from normbench.stats.series import CLOCKS, Censored, Point, Reached, at_epoch, best_step, series, time_to_level
from normbench.stats.statistics import t_interval

UNEVEN = 1.5  # between the slowest and the fastest seed of an arm: their machine did other things as well


@dataclass(frozen=True)
class Row:
    """A cell and what it says; numbers in the shown unit. `values`: the asked one by seed, None if it has none."""

    cell: Cell
    arm: str
    values: Mapping[int, float | None]
    at: Entry  # at the asked point
    best: Entry  # at the best of what is monitored
    time: Entry | None  # to the level
    seconds_per_step: float | None
    difference: Difference | None = None  # against the baseline

    @property
    def diverged(self) -> int:
        """Runs that ended without the asked number, those among them whose last evaluation alone was not finite."""
        return self.at.diverged

    @property
    def lost(self) -> bool:
        """Whether all its runs diverged, and they are enough for a word."""
        return self.diverged == len(self.cell.runs) >= FEWEST


@dataclass(frozen=True)
class Group:
    """Cells that may be held against each other, the best first. `pairs`: the family of tests that all words rest on.
    `tuned`: each arm at its own best learning rate."""

    place: str
    rows: Sequence[Row]
    pairs: Sequence[Difference] = ()
    tuned: bool = False

    @cached_property
    def lost(self) -> list[str]:
        """The arms whose runs all diverged: more seeds of these decide nothing."""
        return [row.arm for row in self.rows if row.lost]

    @cached_property
    def of_best(self) -> list[Difference]:
        """The best arm against each of the others, but for those that are lost."""
        best = self.rows[0].arm
        return [pair for pair in self.pairs if pair.first == best and not {best, pair.second} & {*self.lost}]

    @cached_property
    def winner(self) -> str:
        """The best arm, if it is ahead of all others; else ""."""
        return self.rows[0].arm if self.of_best and all(pair.word == AHEAD for pair in self.of_best) else ""

    @property
    def against(self) -> list[Difference]:
        """Each arm against the baseline: pairs, turned where the baseline is the first."""
        return [row.difference for row in self.rows if row.difference]

    @property
    def front(self) -> list[str]:
        """The arms that no other is ahead of."""
        behind = {d.second for d in self.pairs if d.word == AHEAD} | {d.first for d in self.pairs if d.word == BEHIND}
        behind |= {*self.lost}
        return [row.arm for row in self.rows if row.arm not in behind]

    @property
    def open(self) -> list[Difference]:
        """What is undecided: each arm against the baseline, and the best one against the others in front."""
        told = [d for d in self.against if d.word == UNDECIDED and not {d.first, d.second} & {*self.lost}]
        known = {frozenset((d.first, d.second)) for d in self.against}
        front = self.front
        lead = [
            pair
            for pair in self.pairs
            if pair.word == UNDECIDED and pair.first == self.rows[0].arm and pair.second in front
        ]
        return [*told, *(pair for pair in lead if frozenset((pair.first, pair.second)) not in known)]

    def sentences(self, question: Question) -> tuple[list[str], list[str]]:
        """Who wins, by how much, or that it is open; and of each further comparison what it says, without a stop."""
        return _sentences(self, question)

    def sentence(self, question: Question) -> str:
        """The same in one line."""
        first, rest = self.sentences(question)
        return " ".join([*first, *([f"{'; '.join(rest)}."] if rest else [])])


@dataclass(frozen=True)
class Answer:
    """`groups` by facets, then those with each arm at its own best learning rate."""

    task: Task
    question: Question
    groups: Sequence[Group]
    notes: Sequence[str] = field(default_factory=tuple)

    @property
    def sentence(self) -> str:
        told = [
            f"{f'{group.place}: ' if group.place else ''}{group.sentence(self.question)}"
            for group in self.groups
            if len(group.rows) > 1
        ]
        return " ".join(told)

    @property
    def by(self) -> str:
        """What the best of a run is chosen by: `by valid NLL`."""
        return f"by {chosen_by(self.task)}"

    @property
    def heading(self) -> str:
        """What the numbers are: `test error at the end, % · mean and 95 % interval over seeds · lower is better`."""
        q = self.question
        when = "at the end" if q.at == END else f"at the best {self.by}"
        unit = f", {q.metric.unit}" if q.metric.unit else ""
        better = "higher" if q.metric.rising else "lower"
        return f"{q.split} {q.metric.title} {when}{unit} · mean and 95 % interval over seeds · {better} is better"

    def as_json(self, pairs: bool = True) -> dict[str, Any]:
        """All of it as plain data, NaN as null. pairs: also each arm against each other, of which there may be many."""
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
    """Every cell of the task by facets; with several learning rates each arm at its own best one beside them."""
    places: dict[str, list[Cell]] = {}
    for cell in task.cells:
        places.setdefault(question.place(cell), []).append(cell)
    groups = [_group(cells, place, question) for place, cells in places.items()]
    tuned, of_rates = _tuned(task, question) if TUNED in question.facets else ([], [])
    groups += tuned
    return Answer(task, question, groups, [*_notes(task, question, groups), *of_rates])


def chosen_by(task: Task) -> str:
    """What says when a run is at its best: `valid NLL`."""
    monitor = task.monitored
    return metrics.format_metric(monitor["split"], monitor["metric"]) if monitor else "what each run monitors"


def value(run: RunRecord, question: Question, at: str = "", variant: str | None = None) -> float | None:
    """The asked number of one run as it is shown; None where it diverged, is unfinished or has none there.

    variant: words that name another evaluation than the default one, as `stats.series.at_epoch` reads them.
    """
    if run.status != "done":
        return None
    split, mode, metric = question.where
    when = "last" if (at or question.at) == END else "best"
    found = at_epoch(run, split, metric, when, variant, mode)
    return None if found is None or not math.isfinite(found) else found * question.metric.factor


def difference_curve(first: Cell, second: Cell, question: Question, clock: str) -> list[Point]:
    """first − second over pairs of equal seeds at every evaluation that both have, as logged, with its interval."""
    pairs = []
    for run in first.done:
        for other in second.done:
            if run.seed == other.seed:
                pairs.append(
                    (dict(series(run, *question.where, x=clock)), dict(series(other, *question.where, x=clock)))
                )
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
        [held_against(a.values, b.values, (a.arm, b.arm)) for a, b in itertools.combinations(rows, 2)], lost, rising
    )
    against = {d.first: d for pair in pairs for d in (pair, pair.turned) if d.second == question.against}
    return Group(place, [replace(row, difference=against.get(row.arm)) for row in rows], pairs, tuned)


def _row(cell: Cell, question: Question) -> Row:
    done, lost = cell.done, [None] * len(cell.diverged)
    values = {run.seed: value(run, question) for run in cell.runs}
    best = [value(run, question, BEST) for run in done]
    paces = _paces(cell)
    unit = question.metric.unit
    return Row(
        cell,
        question.arm(cell),
        values,
        estimate_entry([*(values[run.seed] for run in done), *lost], "", "", "", unit),
        estimate_entry([*best, *lost], "", "", "", unit),
        _time(cell, question),
        statistics.median(paces) if paces else None,
    )


def _paces(cell: Cell) -> list[float]:
    """Seconds an update of each run."""
    return [run.seconds / run.steps for run in cell.done if run.seconds and run.steps]


def _time(cell: Cell, question: Question) -> Entry | None:
    if question.level is None:
        return None
    times = [time for run in cell.done if (time := _reached(run, question)) is not None]
    return times_entry(times, len(cell.diverged), "", "", "", CLOCKS[question.clock])


def _reached(run: RunRecord, question: Question) -> Reached | Censored | None:
    assert question.level is not None
    sign = -1 if question.metric.rising else 1
    points = [(x, sign * y) for x, y in question.curve(run)]
    return time_to_level(points, sign * question.level, question.metric.loss and sign > 0) if points else None


def _tuned(task: Task, question: Question) -> tuple[list[Group], list[str]]:
    """Each arm with several learning rates at the one that is best on what its runs monitor, and what is unfair."""
    facets = tuple(key for key in question.facets if key != TUNED)
    plain = replace(question, facets=facets, against="")
    places: dict[str, dict[str, list[Cell]]] = {}
    for cell in task.cells:
        places.setdefault(plain.place(cell), {}).setdefault(question.arm(cell), []).append(cell)
    groups, notes = [], []
    for place, arms in places.items():
        chosen = {arm: min(cells, key=_monitored) for arm, cells in arms.items() if len(cells) > 1}
        if len(chosen) < 2:
            continue
        rates = {arm: cell.label([TUNED]) for arm, cell in chosen.items()}
        names = {cell.key: f"{arm} {rates[arm]}".strip() for arm, cell in chosen.items()}
        base = chosen.get(question.against)
        asked = replace(plain, arms={**question.arms, **names}, against=names[base.key] if base else "")
        groups.append(_group(list(chosen.values()), place, asked, tuned=True))
        where = f"{place}: " if place else ""
        counts = {arm: len(cells) for arm, cells in arms.items()}
        if len(set(counts.values())) > 1:
            told = ", ".join(f"{count} of {arm}" for arm, count in counts.items())
            notes.append(f"{where}Learning rates tried: {told}. Whoever may choose among more looks better.")
        if edge := [arm for arm, cell in chosen.items() if _at_edge(cell, arms[arm])]:
            notes.append(f"{where}The best learning rate of {_listed(edge)} is the first or last of those tried.")
    if groups and task.monitored and task.monitored["split"] == question.split:
        notes.append(f"Learning rates are chosen by {chosen_by(task)}, the split that is shown: optimistic.")
    return groups, notes


def _at_edge(chosen: Cell, cells: Sequence[Cell]) -> bool:
    """Whether the best learning rate is the lowest or highest of those tried: a better one may lie beyond."""
    rates = [rate for cell in cells if isinstance(rate := cell.values.get(TUNED), int | float)]
    return chosen.values.get(TUNED) in (min(rates, default=None), max(rates, default=None))


def _monitored(cell: Cell) -> tuple[int, float]:
    """Fewest lost runs, then the best mean of what is monitored, at each run's best."""
    values = []
    for run in cell.done:
        monitor, step = run.monitor, best_step(run)
        curve = dict(series(run, monitor["split"], "eval", monitor["metric"], x="step"))
        if step is not None and math.isfinite(curve.get(step, math.nan)):
            values.append(-curve[step] if monitor["goal"] == "max" else curve[step])
    lost = len(cell.runs) - len(values)
    return lost, statistics.fmean(values) if values else math.inf


def _notes(task: Task, question: Question, groups: Sequence[Group]) -> list[str]:
    """What has to be known before the numbers are believed."""
    notes = [
        f"{cell.norm} has several runs of seed {_listed([*map(str, cell.twice)])}: of one configuration, made by other "
        "code. One counts, and other seeds may be of either: delete those of the code that is gone."
        for cell in task.cells
        if cell.twice
    ]
    if longer := sum(bool(run.cut_from) for run in task.runs):
        told = f"{longer} runs are longer ones" if longer > 1 else "One run is a longer one"
        notes.append(f"{told}, cut to {task.length}.")
    if unfinished := [run for cell in task.cells for run in cell.unfinished]:
        counts = {state: sum(run.status == state for run in unfinished) for state in {run.status for run in unfinished}}
        told = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
        notes.append(f"Not counted: {told}.")
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


def _sentences(group: Group, question: Question) -> tuple[list[str], list[str]]:
    unit = question.metric.step_unit
    counts = [row.at.n for row in group.rows]
    if max(counts, default=0) == 0:
        return ["Every run diverged." if all(row.lost for row in group.rows) else "No run is done yet."], []
    how = " (each at its own best learning rate)" if group.tuned else ""
    if len(group.rows) < 2:
        return [], []
    if max(counts) < FEWEST:
        return [f"No verdict{how}: n = {max(counts)}, and a verdict needs {FEWEST} seeds."], []
    if group.winner:
        told = [f"{d.second} ({d.text(unit)})" for d in group.of_best]
        first = f"Winner{how}: {group.winner}, ahead of {_listed(told)}."
    else:
        few = [row.arm for row in group.rows if row.at.n < FEWEST and not row.lost]
        front = [arm for arm in group.front if arm not in few]
        first = f"No winner{how}: undecided between {_listed(front)}."
        if len(front) == 1:
            why = "adjusted for all pairs not ahead of every arm"
            if few:
                why = f"{_listed(few)} {'has' if len(few) == 1 else 'have'} fewer than {FEWEST} seeds"
            first = f"No winner{how}: {front[0]} is in front, but {why}."
    decided = [
        d
        for row in group.rows
        if (d := row.difference) and d.word != UNDECIDED and group.winner not in (d.first, d.second)
    ]
    lost = [f"Every run of {_listed(group.lost)} diverged."] if group.lost else []
    return [first, *lost], [*(describe_difference(d, unit) for d in decided), *_open(group.open, unit)]


def _open(differences: Sequence[Difference], unit: str) -> list[str]:
    """What is undecided, and why; for the same reason against the same arm, or of the same arm, together."""
    alike: dict[tuple[str, str], list[Difference]] = {}
    for d in differences:
        alike.setdefault((d.second, d.because(unit)), []).append(d)
    told: dict[tuple[str, str], list[Difference]] = {}
    for (second, why), group in alike.items():
        told.setdefault((group[0].first if len(group) == 1 else f"against {second}", why), []).extend(group)
    found = []
    for (_, why), group in told.items():
        ours, theirs = (list(dict.fromkeys(names)) for names in zip(*((d.first, d.second) for d in group), strict=True))
        words = f"{_listed(ours)} against {_listed(theirs)} {'is' if len(ours) == 1 else 'are'} undecided"
        found.append(f"{words} ({why})" if why else words)
    return found


def _listed(words: Sequence[str]) -> str:
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
