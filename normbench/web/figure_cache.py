"""A task with its answer as rows, colours and figures of the page."""

from __future__ import annotations

import hashlib
import statistics
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

from normbench.compare import configuration, paper_references
from normbench.compare.answer import answer
from normbench.compare.groups import Cell, Task
from normbench.compare.question import TUNED, Question
from normbench.draw.panels import Line, Look, Quantity
from normbench.draw.style import EXTRA_COLOURS, colours_of, on_dark
from normbench.runs.record import RunRecord
from normbench.stats.series import Point, aggregate, series
from normbench.web import figures_compare as figures

T = TypeVar("T")
AXES = {"step": "Updates", "epoch": "Epochs", "examples": "Examples", "seconds": "Seconds"}
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
MOST_ROWS = 60  # of a forest plot


class Cache(Generic[T]):
    """The latest results by key; a key with the `state` of runs changes when they get new records."""

    def __init__(self, most: int) -> None:
        self.most, self.results = most, OrderedDict[Hashable, T]()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        if key not in self.results:
            self.results[key] = make()
            while len(self.results) > self.most:
                self.results.popitem(last=False)
        self.results.move_to_end(key)
        return self.results[key]


def state(runs: Iterable[RunRecord]) -> Hashable:
    """A key that changes when a run gets another status or more records."""
    return tuple((run.id, run.status, run.steps, run.reason, run.seconds, len(run.records)) for run in runs)


_LINES = Cache[Line](1000)


class TaskFigures:
    """One task with its answer, as rows, chips and figures."""

    def __init__(self, task: Task, question: Question, clock: str) -> None:
        self.task, self.question = task, question
        self.answer = answer(task, question)
        self.looks = _looks(task, question)
        self.clock = clock if clock in clocks(task) else question.clock
        self.rows = {row.cell.key: row for group in self.answer.groups if not group.tuned for row in group.rows}
        self.best = {row.cell.key for group in self.answer.groups if group.tuned for row in group.rows}
        self.arm_names = list(dict.fromkeys(question.arm(cell) for cell in task.cells))
        self.ordered = sorted(task.cells, key=self._place)

    def _place(self, cell: Cell) -> tuple[Any, ...]:
        """Sort key: the baseline first, then arms in order of appearance; within an arm numbers by size."""
        q, arm = self.question, self.question.arm(cell)
        return arm != q.against, self.arm_names.index(arm), *(_rank(cell.values.get(key)) for key in q.facets)

    def arms(self) -> list[dict[str, Any]]:
        looks: dict[str, list[tuple[Look, str]]] = {}
        for cell in self.ordered:
            looks.setdefault(self.question.arm(cell), []).append(self.looks[cell.key])
        return [
            {
                "key": _key(arm),
                "label": arm,
                "colour": own[0][0].colour,
                "dark": on_dark(own[0][0].colour),
                "dash": own[0][1] if len(own) == 1 else "solid",
            }
            for arm, own in looks.items()
        ]

    def facets(self) -> list[dict[str, Any]]:
        found = []
        for key in self.question.facets:
            cells = sorted(self.task.cells, key=lambda cell: _rank(cell.values.get(key)))
            texts = {value_text(cell, key): cell.format_value(key) if key in cell.values else "–" for cell in cells}
            values = [{"key": _key(f"{key}={text}"), "label": label} for text, label in texts.items()]
            found.append({"key": key, "values": values})
        return found

    def cells(self) -> list[dict[str, Any]]:
        """The cells in the order of their arms, with the answer's numbers.

        `other_rate`: the cell's arm has its best result at another learning rate.
        """
        found = []
        arm = self.question.arm
        tuned = {(arm(cell), self._describe_facets(cell, TUNED)) for cell in self.task.cells if cell.key in self.best}
        for cell in self.ordered:
            row, (look, dash) = self.rows[cell.key], self.looks[cell.key]
            found.append(
                {
                    "key": cell.key,
                    "arm": _key(row.arm),
                    "arm_label": row.arm,
                    "label": look.name,
                    "other_rate": cell.key not in self.best and (row.arm, self._describe_facets(cell, TUNED)) in tuned,
                    "place": [_key(f"{key}={value_text(cell, key)}") for key in self.question.facets],
                    "colour": look.colour,
                    "dark": on_dark(look.colour),
                    "dash": dash,
                    "n": row.at.n,
                    "mean": row.at.mean,
                    "interval": row.at.interval,
                    "text": row.at.text(count=False),
                    "time": row.time.text() if row.time else "",
                    "pace": row.seconds_per_step,
                    "states": counts(cell.runs),
                    "seeds": seeds(cell, row.values),
                }
            )
        return found

    def caption(self) -> str:
        q = self.question
        n = sorted({row.at.n for row in self.rows.values()})
        count = f"n = {n[0]}" if len(n) == 1 else f"n = {n[0]} to {n[-1]}"
        level = "" if q.level is None else f" Dotted: level {configuration.short(q.level * q.metric.factor)}{_unit(q)}."
        return f"Means over all seeds of a cell ({count}) with 95 % intervals.{level}"

    def curves(self) -> figures.Figure:
        q = self.question
        lines = [self._line(cell) for cell in self.ordered]
        name = f"{q.split} {q.metric.title}{_unit(q, ', ')}"
        quantity = Quantity(name, *q.where, log=q.metric.loss, x=AXES[self.clock], clock=logged_clock(self.clock))
        lost = {run.id: run.reason for run in self.task.runs if run.status == "diverged"}
        figure = figures.curves(
            lines,
            quantity,
            paper_references.references(self.task, q) if self.clock == q.clock else (),
            lost,
            None if q.level is None else q.level * q.metric.factor,
            self._times(),
        )
        dashes = {key: dash for key, (_, dash) in self.looks.items()}
        for trace in figure["data"]:
            if trace["meta"]["role"] in ("mean", "seed"):
                trace["line"]["dash"] = dashes[trace["meta"]["arm"]]
        return figure

    def _line(self, cell: Cell) -> Line:
        of_seeds = figures.columns_of_seeds(len(self.task.runs))
        return _line(cell, self.looks[cell.key][0], self.question, (self.clock, self._stretch(cell), of_seeds))

    def _stretch(self, cell: Cell) -> float:
        """The factor from the logged clock to the displayed one: this cell's seconds or examples per update."""
        if self.clock == "seconds":
            return self.rows[cell.key].seconds_per_step or 0.0
        return float(cell.values.get("train.batch_size", 1)) if self.clock == "examples" else 1.0

    def _times(self) -> dict[str, tuple[float, tuple[float, float] | None, str]]:
        found = {}
        for key, row in self.rows.items():
            if row.time is None or row.time.mean is None:
                continue
            factor = 1.0
            if self.clock != self.question.clock:
                factor = self._stretch(row.cell) * _updates(row.cell, self.question.clock)
                if self.clock == "epoch":
                    factor = _updates(row.cell, self.question.clock) / _updates(row.cell, "epoch")
            ends = row.time.interval and (factor * row.time.interval[0], factor * row.time.interval[1])
            text = f"{self.looks[key][0].name}: {row.time.text()} {row.time.unit} to the level"
            found[key] = (factor * row.time.mean, ends, text)
        return found

    def forest(self) -> figures.Figure | None:
        """Every arm against the baseline; groups with each arm at its own best learning rate come first."""
        q = self.question
        effects = []
        for group in sorted(self.answer.groups, key=lambda group: not group.tuned):
            for row in group.rows:
                if (d := row.difference) is None or d.mean is None:
                    continue
                name, place = q.arm(row.cell), self._describe_facets(row.cell, TUNED if group.tuned else "")
                if group.tuned:
                    name += f" · lr={row.cell.format_value(TUNED)}"
                    place = " · ".join(word for word in (place, "best rate of each") if word)
                look = replace(self.looks[row.cell.key][0], name=name)
                effects.append(figures.Effect(row.cell.key, look, d.mean, d.interval, d.text(), place))
        if not effects:
            return None
        better = "right" if q.metric.rising else "left"
        unit = f", {q.metric.step_unit}" if q.metric.step_unit else ""
        title = f"less that of {figures.cut(q.against, 24)}{unit} · {better} is better"
        return figures.forest(effects[:MOST_ROWS], title)

    def _describe_facets(self, cell: Cell, but: str = "") -> str:
        """The facets of a cell as text, without the key `but`."""
        return _where(cell, self.question, [key for key in self.question.facets if key != but])

    def sensitivity(self) -> figures.Figure | None:
        """The metric against the learning rate; None with one rate."""
        q = self.question
        if TUNED not in self.task.differing:
            return None
        lines: dict[tuple[str, str], list[figures.Setting]] = {}
        looks: dict[tuple[str, str], Look] = {}
        for cell in self.task.cells:
            row = self.rows[cell.key]
            rate = cell.values.get(TUNED)
            if not isinstance(rate, int | float):
                continue
            others = replace(q, facets=tuple(key for key in q.facets if key != TUNED))
            arm = (row.arm, _where(cell, others))
            text = f"{row.arm} at {rate:g}: {row.at.text()}{_unit(q)}"
            setting = figures.Setting(float(rate), row.at.mean, row.at.interval, text, cell.key in self.best)
            lines.setdefault(arm, []).append(setting)
            name = " · ".join(word for word in arm if word)
            looks.setdefault(arm, replace(self.looks[cell.key][0], name=name))
        arms = [(_key(arm[0]), looks[arm], settings) for arm, settings in lines.items()]
        return figures.sensitivity(arms, "Learning rate", f"{q.split} {q.metric.title}{_unit(q, ', ')}", q.metric.loss)


def _looks(task: Task, question: Question) -> dict[str, tuple[Look, str]]:
    """Name, colour and dash by cell: the normalizer's colour; cells that share it have different dashes.

    With one normalizer in the whole task, each arm has its own colour. A setting has the same dash in every colour
    where that dash is free.
    """
    arms = list(dict.fromkeys(question.arm(cell) for cell in task.cells))
    colours = colours_of(cell.norm for cell in task.cells)
    alike = len(colours) == 1 and len(arms) > 1
    varying = {  # a facet with one value in all runs of an arm is left out of its names
        arm: {
            key
            for key in question.facets
            if len({value_text(cell, key) for cell in task.cells if question.arm(cell) == arm}) > 1
        }
        for arm in arms
    }
    settings = sorted({_setting(cell, question) for cell in task.cells})
    found: dict[str, tuple[Look, str]] = {}
    used: dict[str, list[str]] = {}
    for cell in task.cells:
        arm = question.arm(cell)
        colour = EXTRA_COLOURS[arms.index(arm) % len(EXTRA_COLOURS)] if alike else colours[cell.norm]
        name = " · ".join(word for word in (arm, _where(cell, question, varying[arm])) if word)
        here = used.setdefault(colour, [])
        own = DASHES[settings.index(_setting(cell, question)) % len(DASHES)]
        dash = next((dash for dash in (own, *DASHES) if dash not in here), DASHES[len(here) % len(DASHES)])
        found[cell.key] = (Look(name, colour), dash)
        here.append(dash)
    return found


def _setting(cell: Cell, question: Question) -> tuple[Any, ...]:
    return tuple(_rank(cell.values.get(key)) for key in question.facets)


def _where(cell: Cell, question: Question, keys: Collection[str] | None = None) -> str:
    """The facets of a cell as text, or only `keys`; without their group where that is unambiguous: `lr=0.001`."""
    last = Counter(key.rpartition(".")[2] for key in question.facets)
    words = []
    for key in question.facets:
        if key in cell.values and (keys is None or key in keys):
            short = key.rpartition(".")[2]
            words.append(f"{short if last[short] == 1 else key}={cell.format_value(key)}")
    return " ".join(words)


def _line(cell: Cell, look: Look, question: Question, how: tuple[str, float, int]) -> Line:
    """Mean, interval and seeds of a cell in displayed units, over all its runs with records, thinned for the plot.

    how: the clock, its factor from the logged clock, and the columns of a seed's curve.
    """
    runs = [run for run in cell.runs if run.records]
    key = (state(runs), question.where, question.metric.factor, how)
    made = _LINES.get(key, lambda: figures.thinned_line(_computed(runs, question, *how[:2]), how[2]))
    return replace(made, arm=cell.key, look=look)


def _computed(runs: Sequence[RunRecord], question: Question, clock: str, stretch: float) -> Line:
    factor, x = question.metric.factor, logged_clock(clock)
    points = []
    for p in aggregate(runs, *question.where, x=x) if stretch else ():
        if p.mean is not None:
            ends = p.interval and (factor * p.interval[0], factor * p.interval[1])
            points.append(Point(stretch * p.x, factor * p.mean, ends, p.n, p.diverged))
    seeds = [
        (run.seed, run.id, [(stretch * x, factor * y) for x, y in series(run, *question.where, x=x)])
        for run in runs
        if stretch
    ]
    lost = sum(run.status == "diverged" for run in runs)
    return Line("", Look("", ""), points, seeds, lost)


def logged_clock(clock: str) -> str:
    """The key of a record that this clock is computed from."""
    return clock if clock in ("epoch", "step") else "step"


def _updates(cell: Cell, clock: str) -> float:
    """Updates in one unit of a clock."""
    if clock == "step":
        return 1.0
    whole = [run.steps / run.epochs for run in cell.runs if run.epochs and run.steps]
    return statistics.median(whole) if whole else 1.0


def clocks(task: Task) -> list[str]:
    """The clocks that every cell has."""
    found = ["epoch"] if task.budget[1] == "epochs" else []
    found.append("step")
    if all(isinstance(cell.values.get("train.batch_size"), int) for cell in task.cells):
        found.append("examples")
    if any(run.seconds for run in task.runs):
        found.append("seconds")
    return found


def seeds(cell: Cell, values: Mapping[int, float | None]) -> list[dict[str, Any]]:
    return [
        {
            "id": run.id,
            "seed": run.seed,
            "state": run.status,
            "value": values.get(run.seed),
            "text": "" if (v := values.get(run.seed)) is None else configuration.short(v),
            "step": int(run.records[-1]["step"]) if run.records else 0,
            "steps": run.steps,
            "reason": run.reason,
        }
        for run in cell.runs
    ]


def counts(runs: Iterable[RunRecord]) -> dict[str, int]:
    """The number of runs by state, without those that are done."""
    return dict(Counter(run.status for run in runs if run.status != "done"))


def value_text(cell: Cell, key: str) -> str:
    return configuration.text(cell.values[key]) if key in cell.values else "–"


def _rank(value: Any) -> tuple[bool, float, str]:
    """Sort key: numbers by size, then all other values by their text."""
    number = isinstance(value, int | float)
    return not number, float(value) if number else 0.0, configuration.text(value)


def _key(text: str) -> str:
    """A name for the address: the text, or its hash if it contains the separator of names."""
    return text if "|" not in text else hashlib.sha256(text.encode(errors="replace")).hexdigest()[:10]


def _unit(question: Question, before: str = " ") -> str:
    return f"{before}{question.metric.unit}" if question.metric.unit else ""
