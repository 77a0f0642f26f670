"""Leftovers of killed commands, and files without permission; a walk over the whole folder."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from normbench.check.finding import Finding
from normbench.errors import NormbenchError
from normbench.runs import files, lock, old_form, run_file, store, writing
from normbench.runs.damaged import Damaged


def permissions(results: Path, seen: dict[str, int]) -> Iterator[Finding]:
    """Files that their owner or this user may not read, folders that they may not list, what anybody may change."""
    yield from _allowed(results)
    for folder, names, others in os.walk(results):
        for name in (*names, *others):
            seen["files"] += 1
            yield from _allowed(Path(folder, name))


def _allowed(path: Path) -> Iterator[Finding]:
    try:
        mode = path.lstat().st_mode
    except OSError:  # gone meanwhile, or in a folder without permission, which has its own finding
        return
    if stat.S_ISLNK(mode):
        return
    folder = stat.S_ISDIR(mode)
    needed, letters = (0o500, "rx") if folder else (0o400, "r")
    if mode & needed != needed:
        command = f"chmod u+{letters} {path}"
        yield Finding("permission", path, f"its owner may not {'list' if folder else 'read'} it (mode "
                      f"{stat.S_IMODE(mode):04o}). Allow it: {command}")  # fmt: skip
    elif not os.access(path, os.R_OK | (os.X_OK if folder else 0)):
        yield Finding("permission", path, "this user may not read it. Ask its owner")
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        yield Finding("writable", path, f"anybody may change it (mode {stat.S_IMODE(mode):04o}): chmod o-w {path}")


def check(results: Path, repair: bool) -> Iterator[Finding]:
    """Temporary files and folders of commands that are gone, and files that finished runs no longer need."""
    running: dict[Path, bool] = {}
    for folder, names, others in os.walk(results):
        for name in sorted((*names, *others)):
            path = Path(folder, name)
            run = next((p for p in (path, *path.parents) if store.NAME.fullmatch(p.name)), None)
            if not (files.is_leftover(name) or (run is not None and path.parent == run and _not_needed(run, name))):
                continue
            if run is not None and running.setdefault(run, store.is_locked(run)):
                continue
            if name in names:
                names.remove(name)
            if (found := _handle(path, run, repair)) is not None:
                yield found


def misnamed(results: Path) -> Iterator[Finding]:
    """Folders that hold a run and have no run's name: nothing reads them."""
    for folder, names, others in os.walk(results / "runs"):
        path = Path(folder)
        if store.NAME.fullmatch(path.name) or store.OLD.search(path.name):
            names.clear()
        elif {run_file.NAME, old_form.STATUS} & {*others} and path.name != "runs":
            with contextlib.suppress(Damaged, KeyError, TypeError):  # an unreadable status: its run has no name
                status = run_file.read(path)
                own = store.named(path.parent, status["arm"], status["seed"], status["id"])
                if own.exists():
                    yield Finding(
                        "unknown", path, f"a copy of {own}, perhaps: nothing reads it, as it has another name"
                    )
                    continue
                command = f"mv {shlex.join([str(path), str(own)])}"
                yield Finding("name", path, "a run that nothing reads, as its folder has another name. Give it its "
                              f"name again: {command}")  # fmt: skip


def _not_needed(run: Path, name: str) -> bool:
    """The checkpoint of a finished run; what a killed process of an earlier version left beside its lock."""
    if name in (lock.CLAIM, f"{lock.CLAIM}.taking"):
        return True
    if name != "checkpoint":
        return False
    try:
        return run_file.read(run)["status"] in store.FINISHED
    except Damaged:
        return False


def _handle(path: Path, run: Path | None, repair: bool) -> Finding | None:
    """The finding; None if the path is in use. It is removed under the lock that a writer takes."""
    cause = "a command that was killed left it"
    if not repair:
        return Finding("leftover", path, f"{cause}. Remove it: normbench check --repair")
    try:
        with writing.RunDirectory(run).writing() if run is not None else files.alone(path.parent):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                with contextlib.suppress(FileNotFoundError):  # collected by taking the lock
                    path.unlink()
    except NormbenchError:
        return None
    except OSError as error:
        return Finding("leftover", path, f"{cause}, and it cannot be removed: {error.strerror}")
    return Finding("leftover", path, f"{cause}; removed")
