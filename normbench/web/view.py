"""The content of a comparison's page as JSON values, from runs and an address's parameters."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from normbench.compare import configuration, describe
from normbench.compare.answer import Comparison
from normbench.compare.groups import Task, tasks
from normbench.compare.question import Question
from normbench.compare.suggested_seeds import suggested_commands, under_way
from normbench.errors import NormbenchError
from normbench.runs.run import FINISHED, Run
from normbench.web import plots
from normbench.web.board import CACHE, Board, few, stamp, waiting
from normbench.web.json_safe import json_safe
from normbench.web.swept import swept

View = dict[str, Any]
Load = Callable[[Sequence[str]], Mapping[str, Run]]
ASKED = ("split", "metric", "at", "by", "against", "level")  # the parts of a question
PARAMETERS = ("filter", "task", *ASKED, "x", "dash", "plot", "a", "b", "panels")  # parameters that change the view
OUTLINE = "outline"  # parameter: only tasks, cells and states, without reading a curve
LEFT_OUT = "left-out"  # not of the address: the ids of the runs that a reader has hidden
PUBLISHED = "published"  # the source of runs that are not one's own
LENGTHS = {"epochs": "epochs", "updates": "steps"}  # keys of a length by its unit
FIGURES = ("curves", "swept", "forest", "sensitivity", "heat")


class Selection:
    """The runs and the question of an address: `filter` in words, `task`, the parts of a question, the clock `x`, and
    two cells `a` and `b`. What fits nothing is left out, with a note.

    heads: every run, with its state as status and without records.
    """

    def __init__(self, heads: Sequence[Run], query: Mapping[str, str]) -> None:
        self.query = {key: str(query[key]) for key in PARAMETERS if query.get(key)}
        self.notes: list[str] = []
        left_out = {*query.get(LEFT_OUT, "").split("|")}
        shown = [head for head in heads if head.id not in left_out]
        hidden = [head for head in heads if head.id in left_out]
        self.hidden, fitting = len(hidden), hidden
        runs, every = shown, [*shown, *hidden]
        try:
            selected = configuration.select(self.query.get("filter", "").split(), every)
            runs, fitting = ([run for run in selected if (run.id in left_out) == out] for out in (False, True))
        except NormbenchError as error:
            self._leave_out("filter", str(error))
        self.tasks = CACHE.get(("tasks", self.query.get("filter"), 0), stamp(runs), lambda: tasks(runs))
        first = max(self.tasks, key=_of_interest, default=None)
        self.task = next((task for task in self.tasks if task.key == self.query.get("task")), first)
        if self.task and self.query.get("task", self.task.key) != self.task.key:
            self.notes.append("That task is not among these runs.")
        self.hidden_here = sum(len(t.runs) for t in tasks(fitting) if self.task and t.key == self.task.key)
        if self.task:
            words = self.query.get("filter", "").split()
            all_tasks = CACHE.get(("tasks", None, len(hidden)), stamp(every), lambda: tasks(every))
            self.task = self.task.among(all_tasks, lambda further: configuration.fitting(words, every, further))
        if not heads:
            self.notes.append("No run yet. Start some: normbench train -m model=mnist_mlp norm=none,layer")

    def board(self, load: Load) -> Board | None:
        """The task with its runs loaded, and its answer; None where no run has an evaluation."""
        if self.task is None:
            return None
        self.task = self.task.with_runs(load([run.id for run in self.task.runs]))
        while True:
            try:
                return Board(self.task, Question.of(self.task, self.query), self.query)
            except NormbenchError as error:
                wrong = next(
                    (key for key in ASKED if key in self.query and f"{key}={self.query[key]}" in str(error)), ""
                )
                self._leave_out(wrong, str(error))
                if not wrong:
                    return None

    def _leave_out(self, key: str, why: str) -> None:
        self.notes.append(why)
        self.query.pop(key, None)

    def outline(self) -> View:
        """What is known without reading a curve."""
        query, task = dict(self.query), self.task
        if task and not (len(self.tasks) == 1 and "filter" in query):
            query["task"] = task.key
        note = f"{self.hidden} hidden runs are left out: see Runs."
        nothing: View = {
            "heading": "",
            "caption": "",
            "chosen_by": "",
            "choices": {},
            "arms": [],
            "facets": [],
            "answer": None,
            "pair": None,
            "panels": [],
        }
        return {
            **nothing,
            **dict.fromkeys(FIGURES),
            "query": {key: query[key] for key in PARAMETERS if key in query},
            "tasks": [
                {"key": t.key, "title": t.title, "runs": len(t.runs), "of": few(t.experiments), "filter": _filter(t)}
                for t in self.tasks
            ],
            "runs": {
                **_states(task, [task if task and task.key == t.key else t for t in self.tasks]),
                "hidden": self.hidden_here,
            },
            "title": task.title if task else "",
            "cells": waiting(task) if task else [],
            "notes": [*self.notes, *([note] if self.hidden else [])],
        }


def view(
    heads: Sequence[Run],
    load: Load,
    query: Mapping[str, str],
    commands: Callable[[Comparison], Sequence[str]] = suggested_commands,
) -> View:
    """The page for this address.

    heads, query: see `Selection`. load: loads runs with records, by id. With `outline` no curve is loaded, and there
    are no numbers. commands: makes the commands that would decide the open comparisons of an answer.
    """
    selection = Selection(heads, query)
    board = None if query.get(OUTLINE) else selection.board(load)
    return content(selection, board, load, commands)


def content(
    selection: Selection,
    board: Board | None,
    load: Load,
    commands: Callable[[Comparison], Sequence[str]],
    columns: int = plots.COLUMNS,
) -> View:
    """The page of a selection; without a board its outline. columns: see `plots.curves`."""
    page: View = json_safe(selection.outline())
    if board is None:
        return page
    query, c = selection.query, board.comparison
    words = {**board.json(), "notes": [*page["notes"], *describe.notes(c)]}
    words["answer"] |= {"commands": list(commands(c)), "under_way": under_way(c)}
    figures = {  # their texts are safe already
        "pair": plots.pair(board, query.get("a", ""), query.get("b", "")),
        "curves": plots.curves(board, columns),
        "swept": swept(board),
        "panels": [
            {"key": key, "log": panel.question.metric.loss, "curves": plots.curves(panel, columns)}
            for key, panel in board.panels("" if board.plot else query.get("panels", "")).items()
        ],
        "forest": plots.forest(board),
        "sensitivity": plots.sensitivity(board),
        "heat": plots.heat(board, plots.with_variants(board.task, selection.tasks, load)),
    }
    return {**page, **json_safe(words), **figures}


def _filter(task: Task) -> str:
    """What selects the runs of a task among all runs."""
    count, unit = task.budget
    words = (
        f"model={task.model}",
        f"data={task.data}" if task.data else "",
        task.data_options,
        f"train.{LENGTHS[unit]}={count}",
    )
    return " ".join(filter(None, words))


def _of_interest(task: Task) -> tuple[bool, str]:
    """Sort key of the task that is opened first: what is under way, then one's own newest run; else the first task."""
    dates = [run.began for run in task.runs if run.source != PUBLISHED]
    return any(run.status == "running" for run in task.runs), max(dates, default="")


def _states(task: Task | None, others: Sequence[Task]) -> dict[str, Any]:
    """The runs of a task by state, and of all these tasks: the runs under way, and the seconds until they are done."""
    running = sum(run.status == "running" for other in others for run in other.runs)
    lefts = [left for other in others if (left := _seconds_left(other)) is not None]
    states = Counter(run.status for run in task.runs) if task else Counter()
    return {
        "states": dict(states),
        "elsewhere": running - states["running"] if task else 0,
        "left": round(sum(lefts) / running) if lefts else None,
    }


def _seconds_left(task: Task) -> float | None:
    """The seconds that one process needs for a task's runs under way; None where no run tells its pace."""
    coming = [run for run in task.runs if run.status == "running"]
    paces = [run.seconds / run.steps for run in task.runs if run.seconds and run.steps and run.status in FINISHED]
    if not coming or not paces:
        return None
    return sum(max(0, run.steps - run.records.last_step) for run in coming) * statistics.median(paces)
