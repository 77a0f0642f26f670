"""Queued runs: they are in a plan whose jobs wait or run in a batch system, and have not been started or finished."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from normbench.errors import NormbenchError
from normbench.launch.base import function
from normbench.runs import plans, store
from normbench.runs.plans import Plan

WAITING = "queued"
OPEN = ("interrupted", "missing")  # states of a run that a job of its plan will start or resume


def with_jobs(results: Path) -> tuple[list[Plan], list[str]]:
    """The plans whose jobs wait or run, and notes about launchers and plans that could not be read."""
    started, notes = plans.started(results)
    found = []
    for launcher in sorted({one.launcher for one in started}):
        candidates = [one for one in started if one.launcher == launcher]
        if (live := function(launcher, "live")) is None:
            notes.append(f"{candidates[0].path / plans.JOBS}: no launcher {launcher} starts jobs.")
            continue
        try:
            folders = live(candidates)
        except NormbenchError as error:
            notes.append(f"what waits in {launcher} is not known: {error}")
            continue
        for one in candidates:
            if one.path not in folders:
                continue
            try:
                found.append(plans.read(one.path))
            except NormbenchError as error:
                notes.append(f"{error} Its jobs are there: end them, then delete the folder.")
    return found, notes


def queued(results: Path) -> tuple[dict[str, Mapping[str, Any]], list[str]]:
    """The messages of all runs in plans whose jobs wait or run, by id, and the notes of `with_jobs`.

    They include running and finished runs, which `state` distinguishes.
    """
    found, notes = with_jobs(results)
    return {run["id"]: run for plan in found for run in plan.runs}, notes


def state(state: str, run: str, waiting: Iterable[str]) -> str:
    """A run's state as users see it: a queued run that is missing or interrupted is `queued`."""
    return WAITING if run in waiting and state in OPEN else state


def not_begun(waiting: Mapping[str, Mapping[str, Any]], ids: Iterable[str], root: Path) -> list[store.Stored]:
    """Queued runs without a directory; `ids`: those that have one."""
    existing = set(ids)
    return [
        store.Stored(
            store.named(root / run["experiment"], run["arm"], run["config"]["seed"], name),
            run["experiment"],
            run["arm"],
            int(run["config"]["seed"]),
            name,
            {**run, "status": WAITING},
        )
        for name, run in waiting.items()
        if name not in existing
    ]
