"""The content of a comparison's page as JSON values, from runs and an address's parameters, without a clock or a file.

All numbers come from `normbench.compare`; this adds colours, figures and the state of runs. Switches of the page
change no number here: a mean is over all seeds of its cell.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from normbench.compare import configuration, metrics
from normbench.compare.answer import Answer, chosen_by, difference_curve
from normbench.compare.groups import Task, tasks, with_longer
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
from normbench.web.figure_cache import AXES, Cache, TaskFigures, clocks, counts, logged_clock, seeds, state, value_text
from normbench.web.grid import Load
from normbench.web.json_safe import json_safe

View = dict[str, Any]
ASKED = ("split", "metric", "at", "by", "against", "level")  # the parts of a question
PARAMETERS = ("filter", "task", *ASKED, "x", "a", "b")  # parameters that change the view
OUTLINE = "outline"  # parameter: only tasks, cells and states, without reading a curve


def view(
    heads: Sequence[RunRecord],
    load: Load,
    query: Mapping[str, str],
    commands: Callable[[Answer], Sequence[str]] = suggested_commands,
) -> View:
    """The page for this address.

    heads: every run, with its state as status and without records. load: loads runs with records, by id.
    query: `filter` in words, `task`, the parts of a question, the clock `x`, and two cells `a` and `b`. A part that
    fits nothing is left out, with a note. With `outline` no curve is loaded, and there are no numbers. commands: makes
    the commands that would decide the open comparisons of an answer.
    """
    asked = {key: str(query[key]) for key in PARAMETERS if query.get(key)}
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
    task_figures = TaskFigures(task, question, asked.get("x", ""))
    result = task_figures.answer
    pair = _pair(task_figures, asked.get("a", ""), asked.get("b", ""))
    canonical = {**asked, "task": task.key}
    if len(found) == 1 and "filter" in asked:
        del canonical["task"]
    content = json_safe(
        {
            "query": {key: canonical[key] for key in PARAMETERS if key in canonical},
            **common,
            "title": task.title,
            "heading": result.heading,
            "caption": task_figures.caption(),
            "choices": _choices(task, question, task_figures.clock),
            "arms": task_figures.arms(),
            "facets": task_figures.facets(),
            "cells": task_figures.cells(),
            "answer": _answer_json(result, commands(result)),
            "pair": pair[0] if pair else None,
            "notes": [*notes, *result.notes],
        }
    )
    content["figures"] = {  # their texts and numbers are already safe
        "curves": task_figures.curves(),
        "forest": task_figures.forest(),
        "sensitivity": task_figures.sensitivity(),
        "heat": grid.configurations(task, question, found, load),
        "difference": pair[1] if pair else None,
    }
    return dict(content)


def runs_of(heads: Sequence[RunRecord], load: Load, query: Mapping[str, str]) -> list[RunRecord]:
    """The runs of the task of a view, with their records; longer ones cut to its length."""
    asked = {key: str(query[key]) for key in PARAMETERS if query.get(key)}
    found = _tasks(heads, asked, [])
    task = _chosen(found, asked)
    return task.with_runs(load([run.id for run in task.runs])).runs if task else []


def _tasks(heads: Sequence[RunRecord], asked: dict[str, str], notes: list[str]) -> list[Task]:
    chosen = _filtered(_LONGER.get(state(heads), lambda: with_longer(heads)), asked, notes)
    return _TASKS.get(state(chosen), lambda: tasks(chosen))


def _chosen(found: Sequence[Task], asked: Mapping[str, str]) -> Task | None:
    """The task of the address, else the first."""
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
    """The question of the address; parts that do not fit this task are left out, with a note."""
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
    lines = notes or ([] if heads else ["No run yet. Start some: normbench train -m model=mnist_mlp norm=none,layer"])
    return {
        "query": dict(asked), "tasks": [], "runs": {"states": {}, "left": None}, "title": "", "heading": "",
        "caption": "", "choices": {}, "arms": [], "facets": [], "cells": [], "answer": None, "pair": None,
        "figures": dict.fromkeys(("curves", "forest", "sensitivity", "heat", "difference")),
        "notes": [visible(note) for note in lines],
    }  # fmt: skip


def _waiting(task: Task) -> list[dict[str, Any]]:
    """The cells of a task without any evaluation."""
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


_LONGER = Cache[list[RunRecord]](2)
_TASKS = Cache[list[Task]](8)
# --- rows and choices ------------------------------------------------------------------------------------------------


def _choices(task: Task, question: Question, clock: str) -> dict[str, Any]:
    """The choices of the page, each with its current value."""
    q = question
    logged = metrics.logged([run for run in task.runs if run.records])
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
            key: {"now": now[key], "options": [{"key": key, "label": text} for key, text in entries]}
            for key, entries in options.items()
        },
        "logged": {split: [m.name for m in entries] for split, entries in logged.items()},
        "level": {
            "now": "" if q.level is None else configuration.short(q.level * q.metric.factor),
            "unit": q.metric.unit,
            "clock": CLOCKS[q.clock],
        },
        "log": q.metric.loss,
        "better": "higher" if q.metric.rising else "lower",
    }


def _answer_json(answer: Answer, commands: Sequence[str]) -> dict[str, Any]:
    """The answer as JSON values; the first sentence of each group says who wins. Pairs are in the sentences."""
    content = answer.as_json(pairs=False)
    for group, group_json in zip(answer.groups, content["groups"], strict=True):
        first = (group.sentences(answer.question)[0] or [""])[0]
        rest = group.sentence(answer.question).removeprefix(first).strip()
        group_json |= {"sentence": first, "rest": rest, "size": len(group.rows)}
    return {**content, "commands": list(commands)}


def _states(task: Task) -> dict[str, Any]:
    """Runs by state, and an estimate of the seconds until the running and queued ones are done."""
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
    """The pairs of these keys of cells, as a view of these runs has them."""
    asked = {key: str(query[key]) for key in PARAMETERS if query.get(key)}
    task = _chosen(tasks(runs), asked)
    assert task is not None
    task_figures = TaskFigures(task, Question.of(task, asked), asked.get("x", ""))
    for a, b in wanted:
        if pair := _pair(task_figures, a, b):
            yield pair


def _pair(task_figures: TaskFigures, a: str, b: str) -> Pair | None:
    """The options that differ between two cells, and their paired difference over time."""
    cells = {cell.key: cell for cell in task_figures.task.cells}
    first, second = cells.get(a), cells.get(b)
    if first is None or second is None or first is second:
        return None
    names = [task_figures.looks[cell.key][0].name for cell in (first, second)]
    keys = configuration.differing([first.values, second.values])
    q = task_figures.question
    factor = q.metric.factor
    points = [
        Point(p.x, factor * p.mean, p.interval and (factor * p.interval[0], factor * p.interval[1]), p.n, p.diverged)
        for p in difference_curve(
            first, second, q, logged_clock(task_figures.clock) if task_figures.clock != "seconds" else q.clock
        )
        if p.mean is not None
    ]
    clock = q.clock if task_figures.clock in ("seconds", "examples") else task_figures.clock
    unit = f", {q.metric.step_unit}" if q.metric.step_unit else ""
    content: dict[str, Any] = {
        "a": first.key, "b": second.key, "names": names, "n": max((p.n for p in points), default=0),
        "diff": [{"key": key, "a": value_text(first, key), "b": value_text(second, key)} for key in keys],
    }  # fmt: skip
    content = json_safe(content)
    if not points:
        return content, None
    name = f"difference{unit}"
    return content, figures.difference(points, name, AXES[clock], task_figures.looks[first.key][0])
