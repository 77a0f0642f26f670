"""A task with its answer as the page shows it: names, colours, rows of the table; `plots` draws it.

All numbers come from `normbench.compare`. Switches of the page change no number here: a mean is over all seeds of its
cell.
"""

from __future__ import annotations

import copy
import hashlib
import statistics
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

from normbench.compare import configuration, describe, metrics
from normbench.compare.answer import Comparison, Group, Row, compare
from normbench.compare.describe import NO_TEXTS, Texts
from normbench.compare.difference import difference_of
from normbench.compare.groups import Cell, Task
from normbench.compare.metrics import Metric
from normbench.compare.question import BEST, END, TUNED, Question, difference_curve
from normbench.draw.style import distinct_colours, on_dark
from normbench.draw.text import told_apart
from normbench.runs.run import Run
from normbench.stats.series import CLOCKS, Point

T = TypeVar("T")
AXES = {"epoch": "Epochs", "step": "Updates", "examples": "Examples", "seconds": "Seconds"}
ONE = {"epoch": "epoch", "step": "update", "examples": "example", "seconds": "second"}  # a place on it
PARALLEL = "parallel coordinates"
MEANS = "Means over all seeds of a cell."
POINTS = "Large marks: means over all seeds of a cell{}. Small marks: runs."
LINES = "A line for each cell, to its mean over all seeds."
ARM = "arm"  # what a dash may stand for
SYMBOLS = {  # of a point, by the dash of its line
    "solid": "circle",
    "dash": "square",
    "dot": "diamond",
    "dashdot": "cross",
    "longdash": "pentagon",
    "longdashdot": "star",
}
DASHES = tuple(SYMBOLS)
LONGEST = 33  # characters of a label in the list of cells
FEW = 3  # names of many
MANY = 12  # cells: of more, a page shows bands and other learning rates only on wish; as in dashboard.js
MOST = 1000  # results in the cache


class Cache:
    """Results by name, made again where the stamp of what they were made of has changed; the latest MOST remain."""

    def __init__(self) -> None:
        self._results: OrderedDict[Hashable, tuple[Hashable, Any]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, name: Hashable, stamp: Hashable, make: Callable[[], T]) -> T:
        with self._lock:
            entry = self._results.pop(name, None)
        if entry is None or entry[0] != stamp:
            entry = stamp, make()
        with self._lock:
            self._results[name] = entry
            while len(self._results) > MOST:
                self._results.popitem(last=False)
        result: T = entry[1]
        return result


CACHE = Cache()


def stamp(runs: Iterable[Run]) -> Hashable:
    """It changes when a run gets another status or more records."""
    return tuple((run.id, run.status, run.steps, run.reason, run.seconds, len(run.records)) for run in runs)


@dataclass(frozen=True)
class Style:
    name: str
    colour: str
    dash: str = "solid"

    @property
    def symbol(self) -> str:
        return SYMBOLS[self.dash]

    @property
    def mark(self) -> dict[str, str]:
        return {"colour": self.colour, "dark": on_dark(self.colour), "dash": self.dash}


class Board:
    """One task with its answer, as rows, switches and choices."""

    def __init__(self, task: Task, question: Question, query: Mapping[str, str]) -> None:
        """query: the address's parameters; without `level` among them none is shown, but the default suggested."""
        self.task, self.suggested = task, question.level
        self.question = question = question if "level" in query else replace(question, level=None)
        self.comparison = compare(task, question)
        self.clock = query["x"] if query.get("x") in clocks(task) else question.clock
        groups = self.comparison.groups
        self.rows: dict[str, Row] = {row.cell.key: row for g in groups if not g.tuned for row in g.rows}
        self.best = {row.cell.key for group in groups if group.tuned for row in group.rows}
        arms = list(dict.fromkeys(map(question.arm, task.cells)))
        arms.sort(key=lambda arm: arm != question.against)  # the baseline first
        self.cells = sorted(task.cells, key=lambda cell: (arms.index(question.arm(cell)), question.order(cell)))
        self.plot = query["plot"] if query.get("plot") in self._plots() else ""
        self.dash = query["dash"] if query.get("dash") in self.dashes else next(iter(self.dashes), "")

    @cached_property
    def groups(self) -> list[Group]:
        """The comparisons, the headline's first: of the most arms, then of their best rates, then of the most runs."""

        def order(group: Group) -> tuple[int, bool, int]:
            compared = [row for row in group.rows if not row.unlogged]
            return -len(compared), not group.tuned, -sum(row.at.n for row in compared)

        return sorted(self.comparison.groups, key=order)

    @property
    def tuning(self) -> str:
        """What groups with `tuned` are of."""
        return f"each arm at its best learning rate by {describe.chosen_by(self.task)}"

    def describe_facets(self, cell: Cell, keys: Collection[str]) -> str:
        """The cell's values of these facets, without their group where that is unambiguous: `lr=0.001`."""
        names = Counter(key.rpartition(".")[2] for key in self.question.facets)
        words = []
        for key in self.question.facets:
            if key in cell.values and key in keys:
                short = key.rpartition(".")[2]
                words.append(f"{short if names[short] == 1 else key}={cell.format_value(key)}")
        return " ".join(words)

    @cached_property
    def names(self) -> dict[str, str]:
        """By arm its name on the page: of its options those that tell it from all other arms, without their group."""
        options_of = {arm: arm.split(" ") for arm in dict.fromkeys(map(self.question.arm, self.task.cells))}
        names = {}
        # Leave out each option that differs, the last first, as long as no other arm has all that remain.
        for arm, options in options_of.items():
            others = [{*of_other} for other, of_other in options_of.items() if other != arm]
            shortest = list(options)
            for option in reversed(options):
                shorter = [word for word in shortest if word != option]
                differs = option.partition("=")[0] in self.task.differing
                if differs and not any(other.issuperset(shorter) for other in others):
                    shortest = shorter
            names[arm] = " ".join(option.removeprefix(f"{configuration.ARM_GROUP}.") for option in shortest)
        return names

    def shown(self, query: Mapping[str, str]) -> list[Cell]:
        """The cells that a page shows: not switched off, alone or by arm or value; of many the best rates alone."""
        off = {*query.get("off", "").split("|")}
        best_alone = query.get("rate", "best" if len(self.cells) > MANY else "") == "best"
        rows = {cell["key"]: cell for cell in self._cells()}
        hidden = {
            key
            for key, row in rows.items()
            if off & {key, row["arm"], *row["place"]} or (best_alone and row["other_rate"])
        }
        return [cell for cell in self.cells if cell.key not in hidden]

    def comparison_on_show(self, query: Mapping[str, str]) -> Comparison:
        """The answer without the arms that are switched off; what is said of the others stays as it was."""
        keys = {cell.key for cell in self.shown({**query, "rate": "all"})}
        groups = [replace(g, rows=[row for row in g.rows if row.cell.key in keys]) for g in self.comparison.groups]
        return replace(self.comparison, groups=[group for group in groups if group.rows])

    @property
    def untuned(self) -> list[str]:
        return [key for key in self.question.facets if key != TUNED]

    @cached_property
    def logged(self) -> dict[str, list[Metric]]:
        return metrics.logged([run for run in self.task.runs if run.records])

    def panels(self, keys: str) -> dict[str, Board]:
        """The same cells with other metrics for their curves, in the order of these keys; what is not logged is left
        out. The answer stays that of the question."""
        panels, main = {}, panel_key(self.question.split, self.question.metric)
        logged = {panel_key(split, metric): (split, metric) for split in self.logged for metric in self.logged[split]}
        for key in dict.fromkeys(keys.split("|")):
            if key in logged and key != main:
                split, metric = logged[key]
                panels[key] = panel = copy.copy(self)
                panel.question = replace(self.question, split=split, metric=metric, level=None)
                panel.comparison = replace(self.comparison, question=panel.question)
        return panels

    @cached_property
    def colours(self) -> dict[str, str]:
        """By cell the colour of its normalizer; with one normalizer in the whole task, each arm has its own."""
        norms = {cell.key: cell.norm for cell in self.task.cells}
        arms = {cell.key: self.question.arm(cell) for cell in self.task.cells}
        names = norms if len({*norms.values()}) > 1 else arms
        colours = distinct_colours(names.values())
        return {key: colours[name] for key, name in names.items()}

    @property
    def dashes(self) -> list[str]:
        """What the dash of a line may stand for: the arm, where arms share a colour, or a facet; the default first."""
        arms = {(self.colours[cell.key], self.question.arm(cell)) for cell in self.task.cells}
        shared = len(arms) > len({colour for colour, _ in arms})
        return [*([ARM] if shared else []), *sorted(self.question.facets, key=lambda key: key != TUNED)]

    def arm_style(self, cell: Cell) -> Style:
        """The style of a cell's arm, where its place says all the rest."""
        style = self.styles[cell.key]
        return style if self.dash == ARM else replace(style, dash=DASHES[0])

    def _dash(self, cell: Cell) -> str:
        """The dash of a cell's arm among those of its colour, or of its value of a facet; dashes repeat."""
        if self.dash == ARM:
            arms = [self.question.arm(c) for c in self.cells if self.colours[c.key] == self.colours[cell.key]]
            place = list(dict.fromkeys(arms)).index(self.question.arm(cell))
        elif self.dash:
            values = {configuration.rank(c.values.get(self.dash)) for c in self.cells}
            place = sorted(values).index(configuration.rank(cell.values.get(self.dash)))
        else:
            place = 0
        return DASHES[place % len(DASHES)]

    @cached_property
    def styles(self) -> dict[str, Style]:
        arm = self.question.arm
        arms = list(dict.fromkeys(map(arm, self.task.cells)))
        varying = {  # a facet with one value in all runs of an arm is left out of its names
            name: [k for k in self.question.facets if len({value_text(c, k) for c in self.cells if arm(c) == name}) > 1]
            for name in arms
        }
        return {
            cell.key: Style(
                joined(self.names[arm(cell)], self.describe_facets(cell, varying[arm(cell)])),
                self.colours[cell.key],
                self._dash(cell),
            )
            for cell in self.task.cells
        }

    def json(self) -> dict[str, Any]:
        """What the page lists: cells in the order of their arms, switches, choices, the answer in words."""
        q = self.question
        intervals = " with 95 % intervals" * any(row.at.interval for row in self.rows.values())
        level = "" if q.level is None else f" Dotted: {self._level(q.level)}{unit_of(q)}, and when the means reach it."
        return {
            "heading": describe.heading(self.comparison),
            "chosen_by": describe.chosen_by(self.task),
            "caption": {"": f"{MEANS}{level}", PARALLEL: LINES}.get(self.plot, POINTS.format(intervals)),
            "choices": self._choices(),
            "arms": self._arms(),
            "facets": self._facets(),
            "cells": self._cells(),
            "answer": self._sentences(),
        }

    def _arms(self) -> list[dict[str, Any]]:
        styles = {self.question.arm(cell): self.arm_style(cell) for cell in self.cells}
        return [
            {"key": key_of(arm), "label": self.names[arm], "whole": arm, **style.mark} for arm, style in styles.items()
        ]

    def _facets(self) -> list[dict[str, Any]]:
        facets = []
        for key in self.question.facets:
            cells = sorted(self.task.cells, key=lambda cell: configuration.rank(cell.values.get(key)))
            texts = {value_text(cell, key): cell for cell in cells}
            values = [
                {
                    "key": key_of(f"{key}={text}"),
                    "label": short_text(cell, key),
                    **({"dash": self._dash(cell)} if key == self.dash else {}),
                }
                for text, cell in texts.items()
            ]
            facets.append({"key": key, "values": values})
        return facets

    def _cells(self) -> list[dict[str, Any]]:
        """`other_rate`: the cell's arm has its best result at another learning rate."""

        def setting(cell: Cell) -> tuple[str, str]:
            return self.question.arm(cell), self.describe_facets(cell, self.untuned)

        tuned = {setting(cell) for cell in self.cells if cell.key in self.best}
        texts = dict(zip(self.rows, describe.table([*self.rows.values()], self.comparison), strict=True))
        rows = []
        for cell in self.cells:
            place = [key_of(f"{key}={value_text(cell, key)}") for key in self.question.facets]
            other_rate = cell.key not in self.best and setting(cell) in tuned
            row = cell_json(cell, self.styles[cell.key], self.rows[cell.key], texts[cell.key])
            rows.append({**row, "place": place, "other_rate": other_rate})
        return _with_room(rows)

    def _level(self, level: float | None) -> str:
        return "" if level is None else configuration.short(level * self.question.metric.factor)

    def _choices(self) -> dict[str, Any]:
        """The choices of the page, each with its current value."""
        q, task = self.question, self.task
        best = f"at the best by {describe.chosen_by(task)}"
        choices: dict[str, tuple[str, dict[str, str]]] = {
            "split": (q.split, {name: name for name in self.logged}),
            "metric": (q.metric.name, {m.name: m.title for m in self.logged[q.split]}),
            "at": (q.at, {END: "at the end", **({BEST: best} if task.has_best else {})}),
            "against": (q.against, self.names),
            "x": (self.clock, {name: AXES[name].lower() for name in clocks(task)}),
            "plot": (self.plot, self._plots()),
            "dash": (self.dash, {key: key for key in self.dashes} if self.plot in ("", PARALLEL) else {}),
        }
        return {
            **{
                key: {"now": now, "options": [{"key": option, "label": label} for option, label in options.items()]}
                for key, (now, options) in choices.items()
            },
            "panels": [
                {"key": panel_key(split, m), "split": split, "metric": m.name, "label": f"{split} {m.title}"}
                for split, entries in self.logged.items()
                for m in entries
            ],
            "level": {
                "now": self._level(q.level),
                "suggested": self._level(self.suggested),
                "unit": q.metric.unit,
                "clock": CLOCKS[q.clock],
            },
            "log": q.metric.loss,
            "better": q.metric.better,
        }

    def _plots(self) -> dict[str, str]:
        """What may be drawn: curves, or the metric against what was swept."""
        several = {PARALLEL: PARALLEL} if len(self.swept) > 1 else {}
        return {"": "curves", **{key: f"points by {key}" for key in self.swept}, **several}

    @property
    def swept(self) -> list[str]:
        """The keys that differ between the cells, of those that all cells have: no options of one choice alone."""
        return [key for key in self.task.differing if all(key in cell.values for cell in self.task.cells)]

    def _sentences(self) -> dict[str, Any]:
        """Of each group who wins, and the rest; its place names arms where it has not all of them, `whole` each."""
        groups, every = [], len({*self.question.arms.values()})
        for group in self.groups:
            first = (describe.group_sentences(group, self.comparison)[0] or [""])[0]
            rest = describe.group_sentence(group, self.comparison).removeprefix(first).strip()
            arms = [self.names[self.question.arm(row.cell)] for row in group.rows]
            setting = joined(group.place, self.tuning * group.tuned)
            count = f"{len(arms)} of {every} arms: " if len(arms) < every else ""
            place, whole = (joined(setting, count and count + listed) for listed in (few(arms), ", ".join(arms)))
            for row in group.rows if group.tuned else ():  # the place says that each has a rate of its own
                first = first.replace(describe.TUNED_EACH, "").replace(row.arm, self.question.arm(row.cell))
            for arm in sorted(self.names, key=len, reverse=True):
                first, rest = (text.replace(arm, self.names[arm]) for text in (first, rest))
            words = {"place": place, "whole": whole, "sentence": first, "rest": rest}
            groups.append({**words, "tuned": group.tuned, "size": len(group.rows)})
        return {"groups": groups}

    # --- two cells ----------------------------------------------------------------------------------------------------

    def pair(self, a: str, b: str) -> tuple[dict[str, Any], list[Point]] | None:
        """The options that differ between two cells, their difference in words, and over time, in displayed units."""
        cells = {cell.key: cell for cell in self.task.cells}
        if a == b or a not in cells or b not in cells:
            return None
        pair = cells[a], cells[b]
        points = [
            in_units(point, 1.0, self.question.metric.factor)
            for point in difference_curve(*pair, self.question, self.common_clock)
            if point.mean is not None
        ]
        keys = configuration.differing([cell.values for cell in pair])
        names, rows = [self.styles[cell.key].name for cell in pair], [self.rows[cell.key] for cell in pair]
        d = difference_of(rows[0].values, rows[1].values)
        seeds = f", {d.n} pairs" if d.interval and d.paired else ""
        words = describe.difference(d, self.question.metric.step_unit, self.comparison.difference_forms)
        text = f"{words}{seeds}" if words else "no number yet"
        content = {
            "a": a,
            "b": b,
            "names": names,
            "text": f"{names[0]} \N{MINUS SIGN} {names[1]}, {describe.when(self.comparison)}: {text}",
            "diff": [{"key": key, "a": short_text(pair[0], key), "b": short_text(pair[1], key)} for key in keys],
        }
        return content, points

    # --- clocks -------------------------------------------------------------------------------------------------------

    @property
    def logged_clock(self) -> str:
        """The key of a record that the displayed clock is computed from."""
        return self.clock if self.clock in ("epoch", "step") else "step"

    @property
    def common_clock(self) -> str:
        """The displayed clock, or where cells have it at another pace, that of the budget."""
        return self.clock if self.clock in ("epoch", "step") else self.question.clock

    def stretch(self, cell: Cell) -> float:
        """The factor from the logged clock to the displayed one: this cell's seconds or examples per update."""
        if self.clock == "seconds":
            return self.rows[cell.key].seconds_per_step or 0.0
        return float(cell.values.get("train.batch_size", 1)) if self.clock == "examples" else 1.0

    def from_budget(self, cell: Cell) -> float:
        """The factor from the clock of the budget to the displayed one."""
        if self.clock == self.question.clock:
            return 1.0
        rates = [run.steps / run.epochs for run in cell.runs if run.epochs and run.steps]
        updates = statistics.median(rates) if self.question.clock == "epoch" and rates else 1.0
        return self.stretch(cell) * updates


def cell_json(cell: Cell, style: Style, row: Row | None = None, texts: Texts = NO_TEXTS) -> dict[str, Any]:
    """A row of the table, and below it those of its seeds; without numbers where there are none yet."""
    return {
        "key": cell.key,
        "arm": key_of(row.arm) if row else "",
        "arm_label": row.arm if row else "",
        "label": style.name,
        **style.mark,
        "place": [],
        "other_rate": False,
        "n": row.at.n if row else 0,
        "mean": row.at.mean if row else None,
        "interval": row.at.interval if row else None,
        "text": texts.at,
        "time": texts.time,
        "pace": texts.pace,
        "states": dict(Counter(run.status for run in cell.runs if run.status != "done")),
        "seeds": [
            {
                "id": run.id,
                "seed": run.seed,
                "state": run.status,
                "text": texts.seeds.get(run.seed, ""),
                "step": run.records.last_step,
                "steps": run.steps,
                "reason": run.reason,
            }
            for run in cell.runs
        ],
    }


def waiting(task: Task) -> list[dict[str, Any]]:
    """The cells of a task before any curve is read."""
    colours = distinct_colours(cell.norm for cell in task.cells)
    names = {cell.key: cell.label(task.differing) or cell.norm or "all" for cell in task.cells}
    return _with_room([cell_json(cell, Style(names[cell.key], colours[cell.norm])) for cell in task.cells])


def _with_room(cells: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """With `short`, what the list has room for of their labels."""
    shorts = told_apart([cell["label"] for cell in cells], LONGEST)
    return [{**cell, "short": short} for cell, short in zip(cells, shorts, strict=True)]


def clocks(task: Task) -> list[str]:
    """The clocks that every cell has."""
    batches = all(isinstance(cell.values.get("train.batch_size"), int) for cell in task.cells)
    updates = not all(run.logged and run.epochs for run in task.runs)  # of those the log has the epochs alone
    timed = any(run.seconds for run in task.runs)
    has = {"epoch": task.budget[1] == "epochs", "step": updates, "examples": batches, "seconds": timed}
    return [clock for clock in AXES if has[clock]]


def in_units(point: Point, stretch: float, factor: float) -> Point:
    """A point of a logged curve in displayed units."""
    ends = point.interval and (factor * point.interval[0], factor * point.interval[1])
    mean = None if point.mean is None else factor * point.mean
    return Point(stretch * point.x, mean, ends, point.n, point.diverged)


def value_text(cell: Cell, key: str) -> str:
    return configuration.text(cell.values[key]) if key in cell.values else "–"


def short_text(cell: Cell, key: str) -> str:
    return cell.format_value(key) if key in cell.values else "–"


def few(names: Sequence[str]) -> str:
    """`layer, batch, rms and 15 more`."""
    more = len(names) - FEW
    return ", ".join(names) if more < 1 else f"{', '.join(names[:FEW])} and {more} more"


def joined(*words: str) -> str:
    return " · ".join(word for word in words if word)


def unit_of(question: Question, before: str = " ") -> str:
    return f"{before}{question.metric.unit}" if question.metric.unit else ""


def panel_key(split: str, metric: Metric) -> str:
    """A name for the curves of a split's metric: `test:error`."""
    return key_of(f"{split}:{metric.name}")


def key_of(text: str) -> str:
    """A name for the address: the text, or its hash if it contains the separator of names."""
    return text if "|" not in text else hashlib.sha256(text.encode(errors="replace")).hexdigest()[:10]
