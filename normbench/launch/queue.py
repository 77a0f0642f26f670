"""Runs that wait in a batch system: they are in a plan whose jobs are there, and nobody has begun or finished them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from normbench.errors import NormbenchError
from normbench.launch.base import function
from normbench.runs import plans, store
from normbench.runs.plans import Plan

WAITING = "queued"
OPEN = ("interrupted", "missing")  # states of a run that a job of its plan begins or goes on with


def with_jobs(results: Path) -> tuple[list[Plan], list[str]]:
    """The plans whose jobs wait or run, and lines about what could not be asked or read."""
    started, notes = plans.started(results)
    found = []
    for launcher in sorted({one.launcher for one in started}):
        own = [one for one in started if one.launcher == launcher]
        try:
            there = _live(launcher, own)
        except NormbenchError as error:
            notes.append(f"what waits in {launcher} is not known: {error}")
            continue
        for one in own:
            if one.path not in there:
                continue
            try:
                found.append(plans.read(one.path))
            except NormbenchError as error:
                notes.append(f"{error} Its jobs are there: end them, then delete the folder.")
    return found, notes


def queued(results: Path) -> tuple[dict[str, Mapping[str, Any]], list[str]]:
    """The messages of all runs in plans whose jobs are there, by id, and the lines of `with_jobs`.

    Those that are running or finished are among them: `state` tells them apart.
    """
    found, notes = with_jobs(results)
    return {run["id"]: run for plan in found for run in plan.runs}, notes


def _live(launcher: str, known: Sequence[plans.Started]) -> set[Path]:
    """As the launcher's `live` says; NormbenchError where there is none, or it cannot be asked."""
    if (live := function(launcher, "live")) is None:
        raise NormbenchError(f"{known[0].path / plans.JOBS}: there is no launcher of that name that starts jobs.")
    there: set[Path] = live(known)
    return there


def state(state: str, run: str, waiting: Iterable[str]) -> str:
    """A run's state as users see it: `missing` or interrupted, but queued, is queued."""
    return WAITING if run in waiting and state in OPEN else state


def not_begun(waiting: Mapping[str, Mapping[str, Any]], known: Iterable[str], root: Path) -> list[store.Stored]:
    """Queued runs that have no directory yet, as if they had one."""
    begun = set(known)
    return [
        store.Stored(
            store.place(root, run["experiment"], run["arm"], run["config"]["seed"], name),
            run["experiment"],
            run["arm"],
            int(run["config"]["seed"]),
            name,
            {"schema": store.SCHEMA, "status": WAITING, **{key: run[key] for key in ("fidelity", "control", "axes")}},
        )
        for name, run in waiting.items()
        if name not in begun
    ]
