"""Queued runs: a task of a Slurm array, or a command on this machine, has them in its list and will start or resume
them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from normbench.config.identity import code
from normbench.config.spec import Spec
from normbench.errors import NormbenchError
from normbench.launch import batch_jobs
from normbench.launch.base import Outcome
from normbench.runs import directory, plans
from normbench.runs.plans import Plan
from normbench.runs.run import Run

WAITING = "queued"
OPEN = ("interrupted", "missing")  # states of a run that its task will start or resume


def job_name(plan: Path) -> str:
    """The name of the array that trains a plan; it alone tells which array that is."""
    return f"normbench-{plan.name}"


def _live(results: Path) -> tuple[list[tuple[Plan, dict[int, str]]], list[str]]:
    """The plans with waiting or running tasks, those with their jobs, and a note on each plan that cannot be read.

    NormbenchError if Slurm cannot be asked.
    """
    folders = {job_name(folder): folder for folder in plans.submitted(results)}
    found, notes = [], []
    for name, tasks in batch_jobs.live_tasks(folders).items():
        try:
            found.append((plans.read(folders[name]), tasks))
        except NormbenchError as error:
            notes.append(f"{error} Jobs named {name} are in Slurm's queue: end them, then delete the folder.")
    return found, notes


def queued(results: Path) -> tuple[dict[str, Mapping[str, Any]], list[str]]:
    """The messages of the runs of live tasks and commands, by id, and notes on what could not be asked or read.

    They include running and finished runs, which `state` distinguishes.
    """
    begun = plans.in_sweeps(results)
    try:
        live, notes = _live(results)
    except NormbenchError as error:
        return begun, [f"it is not known which runs wait in Slurm: {error}"]
    shards = (plan.shard(task, plan.tasks) for plan, tasks in live for task in tasks)
    return begun | {run["id"]: run for shard in shards for run in shard}, notes


def left_to_others(specs: Sequence[Spec], results: Path) -> dict[str, Outcome]:
    """The outcomes of the runs that belong to a live task, or may belong to one: this command leaves them.

    None that its task will not train: it was planned by other code, or has failed since.
    """
    wanted = {spec.id: spec for spec in specs}
    found: dict[str, Outcome] = {}
    try:
        live, _ = _live(results)
    except NormbenchError as error:
        live = []
        for folder in plans.submitted(results):
            doubt = f"{folder} may be in Slurm's queue ({error}). Once its jobs have ended, delete that folder."
            found |= dict.fromkeys(wanted.keys() & plans.ids(folder), Outcome("refused", doubt, 2))
    for plan, tasks in live:
        for task, job in tasks.items() if plan.code == code() else ():
            for run in plan.shard(task, plan.tasks):
                if run["id"] in wanted and not failed_since(plan, wanted[run["id"]]):
                    found[run["id"]] = Outcome("queued", f"queued already: left to job {job}, {plan.path}")
    return found


def failed_since(plan: Plan, spec: Spec) -> bool:
    """Whether a run has failed since it was planned; once a plan is enough."""
    path = directory.place(plan.results / "runs", spec)
    if directory.read(path).status != "failed":
        return False
    return (path / directory.NAME).stat().st_mtime > plan.since


def state(state: str, run: str, waiting: Iterable[str]) -> str:
    """A run's state as users see it: a queued run that is missing or interrupted is `queued`."""
    return WAITING if run in waiting and state in OPEN else state


def not_begun(waiting: Mapping[str, Mapping[str, Any]], ids: Iterable[str], root: Path) -> list[Run]:
    """Queued runs without a directory; `ids`: those that have one."""
    existing = set(ids)
    return [_waiting(run, root) for name, run in waiting.items() if name not in existing]


def _waiting(run: Mapping[str, Any], root: Path) -> Run:
    path = directory.named(root / run["experiment"], run["arm"], run["seed"], run["id"])
    return Run(**{key: run[key] for key in directory.CARRIED if key in run}, status=WAITING, path=path)
