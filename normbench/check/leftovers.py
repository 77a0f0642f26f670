"""What killed commands left: files on their way, and checkpoints of finished runs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from normbench.check.finding import Finding
from normbench.errors import NormbenchError
from normbench.runs import checkpoint_file, files, store, writing


def check(results: Path, repair: bool, seen: dict[str, int]) -> Iterator[Finding]:
    """All findings; `repair` removes them, under the lock that a writer takes."""
    for folder, names, others in os.walk(results):
        seen["files"] += len(names) + len(others)
        for path in (Path(folder, name) for name in sorted((*names, *others)) if files.is_leftover(name)):
            yield from _leftover(path, next(filter(_is_run, path.parents), None), repair)
        if _is_run(Path(folder)) and "checkpoint" in names and writing.RunDirectory(Path(folder)).is_finished():
            yield from _leftover(Path(folder, checkpoint_file.NAME).parent, Path(folder), repair)


def _leftover(path: Path, run: Path | None, repair: bool) -> Iterator[Finding]:
    if run and store.is_locked(run):
        return
    text = "a command that was killed left it. Remove it: normbench check --repair"
    if repair:
        try:
            with writing.RunDirectory(run).writing() if run else files.alone(path.parent):
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
            text = "a command that was killed left it; removed"
        except (OSError, NormbenchError) as error:
            text = f"a command that was killed left it, and it cannot be removed: {error}"
    yield Finding("leftover", path, text)


def _is_run(path: Path) -> bool:
    return store.NAME.fullmatch(path.name) is not None
