"""Runs that wait in a batch system: they are in a plan whose jobs are there, and nobody has begun or finished them."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from normbench.errors import NormbenchError
from normbench.runs import plans, store

WAITING = "queued"
OPEN = ("interrupted", "missing")  # states of a run that a job of its plan begins or goes on with


def queued(results: Path) -> tuple[dict[str, Mapping[str, Any]], list[str]]:
    """The messages of all runs in plans whose jobs are there, by id, and a line where that could not be asked.

    Those that are running or finished are among them: `state` tells them apart.
    """
    found: dict[str, Mapping[str, Any]] = {}
    notes = []
    started = plans.started(results)
    for launcher in sorted({one.launcher for one in started}):
        own = [one for one in started if one.launcher == launcher]
        try:
            alive = importlib.import_module(f"normbench.launch.{launcher}").live([one.path for one in own])
        except (NormbenchError, ImportError) as error:
            notes.append(f"what waits in {launcher} is not known: {error}")
            continue
        for one in own:
            if one.path in alive:
                found |= {str(run["id"]): run for run in one.runs()}
    return found, notes


def state(state: str, run: str, waiting: Iterable[str]) -> str:
    """A run's state as users see it: `missing` or interrupted, but queued, is queued."""
    return WAITING if run in waiting and state in OPEN else state


def not_begun(waiting: Mapping[str, Mapping[str, Any]], known: Iterable[str], root: Path) -> list[store.Stored]:
    """Queued runs that have no directory yet, as if they had one."""
    begun = set(known)
    return [
        store.Stored(
            _place(root, run),
            run["experiment"],
            run["arm"],
            int(run["config"]["seed"]),
            name,
            {"schema": store.SCHEMA, "status": WAITING, **{key: run[key] for key in ("fidelity", "control", "axes")}},
        )
        for name, run in waiting.items()
        if name not in begun
    ]


def _place(root: Path, run: Mapping[str, Any]) -> Path:
    return root / str(run["experiment"]) / f"{run['arm']}.s{run['config']['seed']}.{run['id']}"
