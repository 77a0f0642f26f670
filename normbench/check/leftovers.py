"""A walk over the whole folder: what may not be read, leftovers of killed commands, renamed runs."""

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
from normbench.runs import files, run_file, store, writing
from normbench.runs.damaged import Damaged


def check(results: Path, repair: bool, seen: dict[str, int]) -> Iterator[Finding]:
    """All findings; `repair` removes leftovers on the way."""
    yield from _permission(results)
    for folder, names, others in os.walk(results):
        if run_file.NAME in others:
            yield from _misnamed(Path(folder))
        for name in sorted((*names, *others)):
            seen["files"] += 1
            path = Path(folder, name)
            yield from _permission(path)
            run = next((p for p in (path, *path.parents) if store.NAME.fullmatch(p.name)), None)
            if _is_leftover(path) and (run is None or not store.is_locked(run)):
                if name in names:
                    names.remove(name)
                yield from _leftover(path, run, repair)


def _permission(path: Path) -> Iterator[Finding]:
    with contextlib.suppress(OSError):  # gone meanwhile, or in a folder without permission, which has its own finding
        mode = path.lstat().st_mode
        folder = stat.S_ISDIR(mode)
        needed, letters, access = (0o500, "rx", os.R_OK | os.X_OK) if folder else (0o400, "r", os.R_OK)
        if not stat.S_ISLNK(mode) and (mode & needed != needed or not os.access(path, access)):
            yield Finding("permission", path, f"it may not be {'listed' if folder else 'read'} (mode "
                          f"{stat.S_IMODE(mode):04o}). Its owner can allow it: chmod +{letters} {path}")  # fmt: skip


def _misnamed(path: Path) -> Iterator[Finding]:
    """A folder that holds a run and has no run's name: nothing reads it."""
    if store.NAME.fullmatch(path.name) or store.OLD.search(path.name):
        return
    with contextlib.suppress(Damaged, KeyError):  # an unreadable run.json: its run has no name
        content = run_file.read(path)
        own = store.named(path.parent, content["arm"], content["seed"], content["id"])
        if not own.exists():
            yield Finding("name", path, "a run that nothing reads, as its folder has another name. Give it its name "
                          f"again: mv {shlex.join([str(path), str(own)])}")  # fmt: skip


def _is_leftover(path: Path) -> bool:
    """Whether a killed command left it: a file on its way, a finished run's checkpoint."""
    if files.is_leftover(path.name):
        return True
    if not store.NAME.fullmatch(path.parent.name):
        return False
    with contextlib.suppress(Damaged):
        return path.name == "checkpoint" and run_file.read(path.parent)["status"] in store.FINISHED
    return False


def _leftover(path: Path, run: Path | None, repair: bool) -> Iterator[Finding]:
    """Removed under the lock that a writer takes; nothing is found if another process has it."""
    cause = "a command that was killed left it"
    if not repair:
        yield Finding("leftover", path, f"{cause}. Remove it: normbench check --repair")
        return
    try:
        with writing.RunDirectory(run).writing() if run is not None else files.alone(path.parent):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)  # taking the lock may have removed it
        yield Finding("leftover", path, f"{cause}; removed")
    except NormbenchError:
        return
    except OSError as error:
        yield Finding("leftover", path, f"{cause}, and it cannot be removed: {error.strerror}")
