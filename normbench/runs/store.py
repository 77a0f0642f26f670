"""The raw store: one directory per run, found by id, readable while it is being written.

    runs/<experiment>/<arm>.s<seed>.<id>/
      run.json curve.jsonl timing.jsonl output.log checkpoint/ weights/ outcomes/ samples/ lock

A damaged directory is listed with its reason and hides no other.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from normbench import locks
from normbench.runs import checkpoint_file, curve_file, run_file
from normbench.runs.damaged import Damaged
from normbench.runs.record import RunRecord
from normbench.runs.run_file import FINISHED

NAME = re.compile(r"(?P<arm>.+)\.s(?P<seed>[0-9]{1,19})\.(?P<id>[0-9a-f]{12})", re.DOTALL)
OLD = re.compile(r"\.old-[0-9]+\Z")  # ends the name of a directory whose run was trained anew


class Wanted(Protocol):
    """A run to be, as the store asks for it: `normbench.config.spec.Spec`."""

    @property
    def id(self) -> str: ...
    @property
    def experiment(self) -> str: ...
    @property
    def arm(self) -> str: ...
    @property
    def seed(self) -> int: ...
    @property
    def steps(self) -> int: ...
    @property
    def config(self) -> Mapping[str, Any]: ...
    def labels(self) -> dict[str, Any]: ...
    def is_of(self, stored: Mapping[str, Any]) -> bool:
        """Whether a stored configuration gives this id."""
        ...

    def accepts(self, stored: Mapping[str, Any]) -> bool:
        """Whether a run of a stored configuration, of the same id, has every evaluation that is asked for."""
        ...

    def can_continue(self, stored: Mapping[str, Any]) -> bool:
        """The same of an unfinished one, whatever its length."""
        ...


@dataclass(frozen=True)
class Stored:
    """A run directory as found: its name's parts and its run.json, or the reason why there is none."""

    path: Path
    experiment: str
    arm: str
    seed: int
    id: str
    content: Mapping[str, Any]
    reason: str = ""

    @property
    def state(self) -> str:
        """`damaged`, or the status; `interrupted` for one that says running and that no process writes."""
        if self.reason:
            return "damaged"
        state = str(self.content["status"])
        return "interrupted" if state == "running" and not is_locked(self.path) else state


def is_locked(path: Path) -> bool:
    """Whether a process writes this run."""
    return locks.is_held(path)


def directories(root: Path, ids: Set[str] | None = None) -> list[Stored]:
    """All run directories below `root` by their names, without run.json, sorted by path; folders that cannot be listed.

    None are looked for behind a link, nor among those that a newer run replaced. ids: of these runs alone.
    """
    found: list[Stored] = []
    waiting = [root] if os.path.lexists(root) else []
    while waiting:
        folder = waiting.pop()
        try:
            names = os.listdir(folder)
        except OSError as error:  # among the runs, to be seen: it may hold some
            names = []
            found.append(Stored(folder, "", folder.name, 0, "", {}, f"cannot be read: {error.strerror}"))
        experiment = str(folder.relative_to(root))
        for name in names:
            if name.startswith(".") or OLD.search(name):
                continue
            match = NAME.fullmatch(name)
            if match and ids is not None and match["id"] not in ids:
                continue
            path = folder / name
            if match:
                found.append(Stored(path, experiment, match["arm"], int(match["seed"]), match["id"], {}))
            elif path.is_dir() and not path.is_symlink():
                waiting.append(path)
    return sorted(found, key=lambda run: str(run.path))


def read(run: Stored) -> Stored:
    """A run directory as found, with its run.json or the reason why there is none."""
    if run.reason:
        return run
    try:
        content = run_file.read(run.path)
        if content.get("id", run.id) != run.id:
            raise Damaged(f"{run_file.NAME} is of run {content['id']!r:.40}")
        return replace(run, content=content)
    except Damaged as damage:
        return replace(run, reason=str(damage))


def scan(root: Path) -> list[Stored]:
    """Every run directory below `root` with its run.json, damaged ones included, sorted by path."""
    return list(map(read, directories(root)))


def by_id(run_ids: Iterable[str], listed: Sequence[Stored]) -> Iterator[Stored]:
    """The directories of these runs, with run.json; of several with one id the one to take comes last.

    A damaged copy hides no whole one, and one that is not finished no finished one. `listed`: as of `directories`.
    """
    copies: dict[str, list[Stored]] = {}
    for run in listed:
        copies.setdefault(run.id, []).append(run)
    for run_id in dict.fromkeys(run_ids):
        found = map(read, copies.get(run_id, ()))
        yield from sorted(found, key=lambda run: (not run.reason, run.state in FINISHED))


def place(root: Path, run: Wanted) -> Path:
    """Where a run that is nowhere below `root` yet belongs; its name is as NAME reads it."""
    return named(root / run.experiment, run.arm, run.seed, run.id)


def named(folder: Path, arm: str, seed: int, run_id: str) -> Path:
    """The directory of a run in the folder of its experiment."""
    return folder / f"{arm}.s{seed}.{run_id}"


def serves(content: Mapping[str, Any], wanted: Wanted) -> bool:
    """Whether a finished run is long enough and has the evaluations that are asked for."""
    if content["status"] not in FINISHED or (content["steps"] < wanted.steps and content["status"] != "diverged"):
        return False
    return wanted.accepts(content["config"])


def can_become(content: Mapping[str, Any], path: Path, wanted: Wanted) -> bool:
    """Whether the unfinished run at `path` can be continued to the end of what is wanted, whatever its own length."""
    if content["status"] in FINISHED:
        return False
    begun = "config" in content and (path / checkpoint_file.NAME).exists()  # else it starts from the first update
    return not begun or wanted.can_continue(content["config"])


def record(stored: Stored) -> RunRecord | None:
    """The finished run with its curve, under its own labels; None if not finished. Raises Damaged."""
    if stored.reason:
        raise Damaged(stored.reason)
    if stored.state not in FINISHED:
        return None
    run = replace(head(stored), records=curve_file.checked(stored.path / "curve.jsonl", stored.content))
    return run.cut(run.steps)


def head(stored: Stored, state: str = "") -> RunRecord:
    """A run without its records, as its run.json tells. `state`: another one than that of its directory."""
    content = stored.content
    labels: dict[str, Any] = {"experiment": stored.experiment, "arm": stored.arm}
    if "experiment" in content:
        labels = run_file.labels(content)
    return RunRecord(
        id=stored.id or str(stored.path),
        seed=stored.seed,
        status=state or stored.state,
        epochs=int(content.get("epochs", 0)),
        steps=int(content.get("steps", 0)),
        reason=stored.reason or str(content.get("reason", "")),
        seconds=content.get("seconds"),
        began=str(content.get("began", "")),
        config=content.get("config", {}),
        environment=content.get("environment", {}),
        source="smoke" if content.get("fidelity") == "smoke" else "own",
        path=stored.path,
        **labels,
    )
