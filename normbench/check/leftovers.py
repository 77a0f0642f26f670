"""What killed commands left: files on their way, and checkpoints of finished runs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from normbench.check.finding import Finding
from normbench.runs import directory, files


def check(results: Path, repair: bool, seen: dict[str, int]) -> Iterator[Finding]:
    """All findings; `repair` removes them, under the lock that a writer takes."""
    for folder, folders, names in os.walk(results):
        seen["files"] += len(folders) + len(names)
        inside = (Path(folder), *Path(folder).parents)
        run = next((directory.RunDirectory(path) for path in inside if directory.FOLDER.fullmatch(path.name)), None)
        left = list(filter(files.is_leftover, (*folders, *names)))
        if "checkpoint" in folders and run and run.path == Path(folder) and run.is_finished():
            left.append("checkpoint")
        if left and run and directory.is_locked(run.path):
            continue
        for path in (Path(folder, name) for name in sorted(left)):
            if repair:
                with run.writing() if run else files.alone(path.parent):  # which removes files already
                    shutil.rmtree(path, ignore_errors=True)
            way_out = ". Remove it: normbench check --repair" if path.exists() else "; removed"
            yield Finding("leftover", path, f"a command that was killed left it{way_out}")
