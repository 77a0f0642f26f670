"""Plans: runs that workers train, `RESULTS/plans/NAME/plan.json`, each worker a shard or all of them.

A plan is named by its content. Its runs lie in the results folder that it is in, wherever that is mounted. A worker of
other code refuses it: what it trained would not be what was planned.

A command that trains runs itself lists them in `RESULTS/plans/sweep-TOKEN/sweep.json` for as long as it lives.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import shutil
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import normbench
from normbench.errors import BadInput
from normbench.files import locks
from normbench.runs import files

SCHEMA = 3
FOLDER, PLAN = "plans", "plan.json"
SWEEP = "sweep.json"  # beside the lock of the command that trains these runs
BATCH = "task.sh"  # the script of a plan that was submitted to Slurm


class Foreign(BadInput):
    """A plan of another version."""


@dataclass(frozen=True)
class Plan:
    """Runs to be; `path` is the plan's folder."""

    path: Path
    content: Mapping[str, Any]

    @property
    def runs(self) -> Sequence[Mapping[str, Any]]:
        """Its runs, as messages."""
        return self.content["runs"]

    @property
    def code(self) -> str:
        """A hash of the sources that planned it."""
        return str(self.content["code"])

    @property
    def tasks(self) -> int:
        """The number of tasks of its Slurm array, one a shard; 0: the user starts its workers."""
        return int(self.content["tasks"])

    @property
    def results(self) -> Path:
        """The results folder that it is in, and its runs."""
        return self.path.parent.parent

    @property
    def since(self) -> float:
        """When it was last asked for: a run that failed before that is tried again."""
        return (self.path / PLAN).stat().st_mtime

    def shard(self, number: int, of: int) -> Sequence[Mapping[str, Any]]:
        """The runs of one shard, from 0: they are dealt in turn."""
        return self.runs[number::of]

    def write(self) -> None:
        """Write it, as new."""
        files.make_folder(self.path)
        files.write_json(self.path / PLAN, self.content)


def new(messages: Sequence[Mapping[str, Any]], results: Path, code: str, tasks: int = 0) -> Plan:
    """The plan of these runs, not written yet."""
    folder = results.resolve() / FOLDER
    content = {"schema": SCHEMA, "code": code, "folder": str(folder), "tasks": tasks, "runs": [*messages]}
    return Plan(folder / files.seal(content)[:12], content)


@contextlib.contextmanager
def sweep(messages: Sequence[Mapping[str, Any]], results: Path) -> Iterator[None]:
    """While it lasts, `in_sweeps` has these runs; what killed commands left is removed."""
    for left in (results / FOLDER).glob(f"*/{SWEEP}"):
        if not locks.is_held(left.parent):
            shutil.rmtree(left.parent, ignore_errors=True)
    folder = results / FOLDER / f"sweep-{secrets.token_hex(6)}"
    files.make_folder(folder)
    try:
        with locks.held(folder):  # before the list: nobody takes it for a killed command's
            files.write_json(folder / SWEEP, [*messages])
            yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):  # other plans
            folder.parent.rmdir()


def in_sweeps(results: Path) -> dict[str, Mapping[str, Any]]:
    """The runs of all commands that train several now, as messages, by id."""
    found: dict[str, Mapping[str, Any]] = {}
    for path in (results / FOLDER).glob(f"*/{SWEEP}"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if locks.is_held(path.parent):
                found |= {run["id"]: run for run in json.loads(path.read_bytes())}
    return found


def submitted(results: Path) -> list[Path]:
    """The folders of the plans that were submitted to Slurm, ended ones among them."""
    return sorted(path.parent for path in (results / FOLDER).glob(f"*/{BATCH}"))


def ids(folder: Path) -> set[str]:
    """The ids of a plan's runs, whatever its version; none if it is damaged, for then its workers refuse it."""
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
        return {run["id"] for run in json.loads((folder / PLAN).read_bytes())["runs"]}
    return set()


def read(path: Path) -> Plan:
    """A plan, by its folder or its file. NormbenchError if it is absent or damaged, Foreign if of another version."""
    folder = path.parent if path.name == PLAN else path
    try:
        content = json.loads((folder / PLAN).read_bytes())
    except OSError as error:
        raise BadInput(
            f"{folder / PLAN} cannot be read on {socket.gethostname()}: {error.strerror}. All nodes must share the "
            "results folder (--results DIR or NORMBENCH_RESULTS)."
        ) from None
    except (ValueError, RecursionError):
        raise BadInput(f"{folder / PLAN} is not JSON: repeat the command that planned it.") from None
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        raise Foreign(f"{folder} is a plan of another version: repeat the command that planned it, with this version.")
    if files.seal(content)[:12] != folder.resolve().name:
        raise BadInput(f"{folder / PLAN} was changed after planning: repeat the command that planned it.")
    return Plan(folder.resolve(), content)


def load(path: Path, code: str) -> Plan:
    """A plan for a worker of this `code`. NormbenchError if other code planned it."""
    plan = read(path)
    if plan.code != code:
        raise BadInput(
            f"{plan.path} was planned by other code ({plan.code}) than this worker's ({code}, "
            f"{Path(normbench.__file__).parent} on {socket.gethostname()}): repeat the command that planned it."
        )
    return plan
