"""What the page of a comparison shows, as plain data: from runs and an address's parameters, without a clock or a file.

All numbers are `normbench.compare`'s; this adds colours, figures and the state of runs. What is switched off on the
page changes no number here: a mean is over all seeds of its cell.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from normbench.compare import configuration, metrics
from normbench.compare.answer import Answer, chosen_by, difference_curve
from normbench.compare.groups import Task, tasks, with_longer
from normbench.compare.metrics import Metric
from normbench.compare.question import BEST, END, Question
from normbench.compare.suggested_seeds import suggested_commands
from normbench.draw.style import colours_of, on_dark
from normbench.draw.text import visible
from normbench.errors import NormbenchError
from normbench.runs.record import RunRecord
from normbench.runs.store import FINISHED
from normbench.stats.series import CLOCKS, Point
from normbench.web import figures_compare as figures
from normbench.web import grid
from normbench.web.figure_cache import AXES, Drawn, Kept, clocks, counts, logged_clock, seeds, state, value_text
from normbench.web.grid import Load
from normbench.web.json_safe import json_safe

View = dict[str, Any]
ASKED = ("split", "metric", "at", "by", "against", "level")  # what a question is made of
KEPT = ("filter", "task", *ASKED, "x", "a", "b")  # parameters that change the view
OUTLINE = "outline"  # asks for what is known without reading a curve: tasks, cells, states


def view(
    heads: Sequence[RunRecord],
    load: Load,
    query: Mapping[str, str],
    commands: Callable[[Answer], Sequence[str]] = suggested_commands,
) -> View:
    """The page for this address.

    heads: every run known, with its state as status and without records. load: the same runs, by id, with records.
    query: `filter` in words, `task`, the parts of a question, the clock `x`, and two cells `a` and `b`. A part that
    fits nothing is left out, with a note. With `outline` no curve is loaded, and there are no numbers. commands: those
    that would decide what an answer leaves open.
    """
    asked = {key: str(query[key]) for key in KEPT if query.get(key)}
    notes: list[str] = []
    found = _tasks(heads, asked, notes)
    task = _chosen(found, asked)
    if task is None:
        return _empty(asked, heads, notes)
    if "task" in asked and asked["task"] != task.key:
        notes.append("That task is not there any more.")
    tasks_told = [{"key": t.key, "title": visible(t.title), "runs": len(t.runs)} for t in found]
    if query.get(OUTLINE):
        outline = {"tasks": tasks_told, "runs": _states(task), "title": visible(task.title), "cells": _waiting(task)}
        return {**_empty(asked, heads, notes), "query": {**asked, "task": task.key}, **outline}
    task = task.with_runs(load([run.id for run in task.runs]))
    common = {"tasks": tasks_told, "runs": _states(task)}
    question = _question(task, asked, notes)
    if question is None:
        return {**_empty(asked, heads, notes), **common, "cells": _waiting(task)}
    drawn = Drawn(task, question, asked.get("x", ""))
    told = drawn.told
    pair = _pair(drawn, asked.get("a", ""), asked.get("b", ""))
    canonical = {**asked, "task": task.key}
    if len(found) == 1 and "filter" in asked:
        del canonical["task"]
    shown = json_safe(
        {
            "query": {key: canonical[key] for key in KEPT if key in canonical},
            **common,
            "title": task.title,
            "heading": told.heading,
            "caption": drawn.caption(),
            "choices": _choices(task, question, drawn.clock),
            "arms": drawn.arms(),
            "facets": drawn.facets(),
            "cells": drawn.cells(),
            "answer": _told_in_words(told, commands(told)),
            "pair": pair[0] if pair else None,
            "notes": [*notes, *told.notes],
        }
    )
    shown["figures"] = {  # their texts and numbers are made safe where they are made
        "curves": drawn.curves(),
        "forest": drawn.forest(),
        "sensitivity": drawn.sensitivity(),
        "heat": grid.configurations(task, question, found, load),
        "difference": pair[1] if pair else None,
    }
    return dict(shown)


def runs_of(heads: Sequence[RunRecord], load: Load, query: Mapping[str, str]) -> list[RunRecord]:
    """The runs of the task that such a view shows, with their records; longer ones cut to its length."""
    asked = {key: str(query[key]) for key in KEPT if query.get(key)}
    found = _tasks(heads, asked, [])
    task = _chosen(found, asked)
    return task.with_runs(load([run.id for run in task.runs])).runs if task else []


def _tasks(heads: Sequence[RunRecord], asked: dict[str, str], notes: list[str]) -> list[Task]:
    chosen = _filtered(_LONGER.get(state(heads), lambda: with_longer(heads)), asked, notes)
    return _TASKS.get(state(chosen), lambda: tasks(chosen))


def _chosen(found: Sequence[Task], asked: Mapping[str, str]) -> Task | None:
    """The task that is asked for, else the first."""
    return next((task for task in found if task.key == asked.get("task")), found[0] if found else None)


def _filtered(heads: Sequence[RunRecord], asked: dict[str, str], notes: list[str]) -> Sequence[RunRecord]:
    if "filter" not in asked:
        return heads
    try:
        return configuration.select(asked["filter"].split(), heads)
    except NormbenchError as error:
        notes.append(str(error))
        del asked["filter"]
        return heads


def _question(task: Task, asked: dict[str, str], notes: list[str]) -> Question | None:
    """The question as it is asked; without what does not fit this task, which is noted."""
    while True:
        try:
            return Question.of(task, asked)
        except NormbenchError as error:
            wrong = next((key for key in ASKED if f"{key}={asked.get(key)}" in str(error) and key in asked), None)
            notes.append(str(error))
            if wrong is None:
                return None
            del asked[wrong]


def _empty(asked: Mapping[str, str], heads: Sequence[RunRecord], notes: list[str]) -> View:
    told = notes or ([] if heads else ["No run yet. Start some: normbench train -m model=mnist_mlp norm=none,layer"])
    return {
        "query": dict(asked), "tasks": [], "runs": {"states": {}, "left": None}, "title": "", "heading": "",
        "caption": "", "choices": {}, "arms": [], "facets": [], "cells": [], "answer": None, "pair": None,
        "figures": dict.fromkeys(("curves", "forest", "sensitivity", "heat", "difference")),
        "notes": [visible(note) for note in told],
    }  # fmt: skip


def _waiting(task: Task) -> list[dict[str, Any]]:
    """The cells of a task of which nothing is evaluated yet."""
    colours = colours_of(cell.norm for cell in task.cells)
    return [
        {
            "key": cell.key, "arm": "", "label": visible(cell.label(task.differing) or cell.norm) or "all",
            "colour": colours[cell.norm], "dark": on_dark(colours[cell.norm]), "dash": "solid", "place": [],
            "other_rate": False,
            "n": 0, "mean": None, "text": "", "time": "", "pace": None, "seeds": seeds(cell, {}),
            "states": counts(cell.runs),
        }
        for cell in task.cells
    ]  # fmt: skip


_LONGER = Kept[list[RunRecord]](2)
_TASKS = Kept[list[Task]](8)
_METRICS = Kept[dict[str, list[Metric]]](32)


def _metrics(task: Task) -> dict[str, list[Metric]]:
    return _METRICS.get(state(task.runs), lambda: metrics.logged([run for run in task.runs if run.records]))


# --- rows and choices ------------------------------------------------------------------------------------------------


def _choices(task: Task, question: Question, clock: str) -> dict[str, Any]:
    """What may be asked instead, each with its value now."""
    q = question
    logged = _metrics(task)
    arms = list(dict.fromkeys(q.arm(cell) for cell in task.cells))
    options: dict[str, list[tuple[str, str]]] = {
        "split": [(name, name) for name in logged],
        "metric": [(m.name, m.title) for m in logged[q.split]],
        "at": [(END, "at the end"), (BEST, f"at the best by {chosen_by(task)}")],
        "against": [(arm, arm) for arm in arms],
        "x": [(name, AXES[name].lower()) for name in clocks(task)],
    }
    now = {"split": q.split, "metric": q.metric.name, "at": q.at, "against": q.against, "x": clock}
    return {
        **{
            key: {"now": now[key], "options": [{"key": key, "label": text} for key, text in known]}
            for key, known in options.items()
        },
        "logged": {split: [m.name for m in known] for split, known in logged.items()},
        "level": {
            "now": "" if q.level is None else configuration.short(q.level * q.metric.factor),
            "unit": q.metric.unit,
            "clock": CLOCKS[q.clock],
        },
        "log": q.metric.loss,
        "better": "higher" if q.metric.rising else "lower",
    }


def _told_in_words(told: Answer, commands: Sequence[str]) -> dict[str, Any]:
    """The answer as plain data; of each group's sentences the first says who wins. Pairs stand in these."""
    content = told.as_json(pairs=False)
    for group, plain_group in zip(told.groups, content["groups"], strict=True):
        first = (group.sentences(told.question)[0] or [""])[0]
        rest = group.sentence(told.question).removeprefix(first).strip()
        plain_group |= {"sentence": first, "rest": rest, "size": len(group.rows)}
    return {**content, "commands": list(commands)}


def _states(task: Task) -> dict[str, Any]:
    """Runs by state, and about how many seconds the running and queued ones still take, one after the other."""
    paces = [run.seconds / run.steps for run in task.runs if run.seconds and run.steps and run.status in FINISHED]
    running = [run for run in task.runs if run.status == "running"]
    open_runs = [run for run in task.runs if run.status in ("running", "queued")]
    left = None
    if paces and open_runs:
        steps = sum(max(0, run.steps - (int(run.records[-1]["step"]) if run.records else 0)) for run in open_runs)
        left = round(steps * statistics.median(paces) / max(1, len(running)))
    return {"states": dict(Counter(run.status for run in task.runs)), "left": left}


# --- two cells -------------------------------------------------------------------------------------------------------


Pair = tuple[dict[str, Any], figures.Figure | None]


def pairs(runs: Sequence[RunRecord], query: Mapping[str, str], wanted: Iterable[tuple[str, str]]) -> Iterator[Pair]:
    """What a view of these runs, with their records, says of each of these pairs of cells, by their keys."""
    asked = {key: str(query[key]) for key in KEPT if query.get(key)}
    task = _chosen(tasks(runs), asked)
    assert task is not None
    drawn = Drawn(task, Question.of(task, asked), asked.get("x", ""))
    for a, b in wanted:
        if told := _pair(drawn, a, b):
            yield told


def _pair(drawn: Drawn, a: str, b: str) -> Pair | None:
    """What differs between the two cells that were chosen, and their paired difference over time."""
    cells = {cell.key: cell for cell in drawn.task.cells}
    first, second = cells.get(a), cells.get(b)
    if first is None or second is None or first is second:
        return None
    names = [drawn.looks[cell.key][0].name for cell in (first, second)]
    keys = configuration.differing([first.values, second.values])
    q = drawn.question
    factor = q.metric.factor
    points = [
        Point(p.x, factor * p.mean, p.interval and (factor * p.interval[0], factor * p.interval[1]), p.n, p.diverged)
        for p in difference_curve(first, second, q, logged_clock(drawn.clock) if drawn.clock != "seconds" else q.clock)
        if p.mean is not None
    ]
    clock = q.clock if drawn.clock in ("seconds", "examples") else drawn.clock
    unit = f", {q.metric.step_unit}" if q.metric.step_unit else ""
    told: dict[str, Any] = {
        "a": first.key, "b": second.key, "names": names, "n": max((p.n for p in points), default=0),
        "diff": [{"key": key, "a": value_text(first, key), "b": value_text(second, key)} for key in keys],
    }  # fmt: skip
    told = json_safe(told)
    if not points:
        return told, None
    name = f"difference{unit}"
    return told, figures.difference(points, name, AXES[clock], drawn.looks[first.key][0])
