"""Plans: runs that workers anywhere claim one by one, `RESULTS/plans/NAME/plan.json`; beside it, jobs started for it.

A plan is named by its content. Its runs lie where those of the results folder do that it is in, wherever that is
mounted. A worker of other code refuses it: what it trained would not be what was planned.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import normbench
from normbench import reading
from normbench.errors import NormbenchError
from normbench.runs import files

SCHEMA = 1
FOLDER, PLAN, JOBS = "plans", "plan.json", "jobs.json"
LARGEST = 1 << 30  # bytes: about 3 kB a run
TEXTS = ("id", "experiment", "arm", "fidelity", "control")  # of a run's message
ID = re.compile("[0-9a-f]{12}")


class Foreign(NormbenchError):
    """A plan of another version."""


@dataclass(frozen=True)
class Plan:
    """Runs to be, as messages; `path` is the plan's folder."""

    path: Path
    runs: Sequence[Mapping[str, Any]]
    code: str  # of the sources that planned it

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def root(self) -> Path:
        """Where its runs lie."""
        return self.path.parent.parent / "runs"

    @property
    def since(self) -> int:
        """When it was last asked for, in ns: a run that failed before that is tried again."""
        return (self.path / PLAN).stat().st_mtime_ns


def write(messages: Sequence[Mapping[str, Any]], results: Path, code: str) -> Plan:
    """The plan of these runs, there when this returns, as new. `code`: a hash of what plans them."""
    runs = [*messages]
    content = {"schema": SCHEMA, "normbench": normbench.__version__, "code": code, "runs": runs}
    plan = Plan(results.resolve() / FOLDER / files.seal(content)[:12], runs, code)
    files.make_folder(plan.path)
    files.write_json(plan.path / PLAN, content)
    return plan


def withdraw(plan: Plan) -> None:
    """Nothing was started for it: a plan without logs of earlier jobs goes."""
    (plan.path / JOBS).unlink(missing_ok=True)
    if [entry.name for entry in plan.path.iterdir()] == [PLAN]:
        (plan.path / PLAN).unlink()
        plan.path.rmdir()


def read(folder: Path) -> Plan:
    """A plan, by whatever code. NormbenchError, one line, where it is damaged, Foreign where of another version."""
    content = _content(folder)
    return Plan(folder, content["runs"], content["code"])


def load(path: Path, code: str) -> Plan:
    """A plan for a worker of this `code`: by its folder or its file. NormbenchError where it is not for it."""
    folder = path.parent if path.name == PLAN else path
    content = _content(folder)
    if content["normbench"] != normbench.__version__:
        raise NormbenchError(
            f"{folder} was planned by normbench {content['normbench']}, this is {normbench.__version__} on "
            f"{socket.gethostname()}: repeat the command that planned it, with this version."
        )
    if content["code"] != code:
        raise NormbenchError(
            f"{folder} was planned by other code ({content['code']:.12}) than this worker's ({code}, "
            f"{Path(normbench.__file__).parent} on {socket.gethostname()}): repeat the command that planned it."
        )
    return Plan(folder.resolve(), content["runs"], content["code"])


@dataclass(frozen=True)
class Started:
    """The jobs that a launcher has started for a plan; none: it is about to, or could not say which."""

    path: Path  # the plan's folder
    launcher: str
    jobs: Sequence[str]

    def forget(self) -> None:
        with contextlib.suppress(PermissionError):  # another user's: asked for in vain each time, no more
            (self.path / JOBS).unlink(missing_ok=True)


def started(results: Path) -> tuple[list[Started], list[str]]:
    """What launchers have noted, and lines about notes that are damaged; large plans are not read for that."""
    found, notes = [], []
    for path in sorted((results / FOLDER).glob(f"*/{JOBS}")):
        try:
            content = reading.parse(reading.read(path, LARGEST).decode())
            launcher, jobs = content["launcher"], content["jobs"]
            if not isinstance(launcher, str) or not all(isinstance(job, str) and job.isalnum() for job in jobs):
                raise ValueError("it names no launcher and jobs")
            found.append(Started(path.parent, launcher, list(jobs)))
        except FileNotFoundError:
            continue  # forgotten meanwhile
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            notes.append(f"{path} is damaged ({error}): delete it once its jobs have ended.")
    return found, notes


def note_jobs(plan: Plan, launcher: str, jobs: Sequence[str]) -> None:
    files.write_json(plan.path / JOBS, {"launcher": launcher, "jobs": [*jobs]})


def _content(folder: Path) -> dict[str, Any]:
    try:
        content = json.loads(reading.read(folder / PLAN, LARGEST))
    except OSError as error:
        raise NormbenchError(
            f"{folder / PLAN} cannot be read on {socket.gethostname()}: {error.strerror}. A results folder that all "
            "nodes see is needed (--results DIR or NORMBENCH_RESULTS)."
        ) from None
    except (ValueError, RecursionError):
        raise NormbenchError(f"{folder / PLAN} is not JSON: repeat the command that planned it.") from None
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        schema = content.get("schema") if isinstance(content, dict) else None
        raise Foreign(
            f"{folder} is a plan of another version (schema {schema}, this version reads {SCHEMA}): repeat the command "
            "that planned it, with this version."
        )
    if files.seal(content)[:12] != folder.resolve().name or not _is_whole(content):
        raise NormbenchError(f"{folder / PLAN} was changed after planning: repeat the command that planned it.")
    return content


def _is_whole(content: Mapping[str, Any]) -> bool:
    """Whether its fields are what everything else relies on."""
    try:
        return all(isinstance(content[key], str) for key in ("normbench", "code")) and all(
            all(isinstance(run[key], str) for key in TEXTS)
            and ID.fullmatch(run["id"])
            and isinstance(run["axes"], dict)
            and type(run["config"]["seed"]) is int
            and isinstance(run["config_dir"], str | None)
            for run in content["runs"]
        )
    except (KeyError, TypeError):
        return False
