"""Runs that other programs logged: their packs are whole, and each run has the id of what names it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from normbench.check.finding import Finding
from normbench.errors import NormbenchError
from normbench.runs import imported, pack


def check(results: Path, seen: dict[str, int]) -> Iterator[Finding]:
    for name in imported.names(results):
        path, again = imported.place(results, name), f"Import the logs again --as {name}"
        try:
            runs = pack.whole(path).runs
        except NormbenchError as error:
            yield Finding("damage", path, str(error).removeprefix(f"{path} "))
            continue
        seen["imported runs"] = seen.get("imported runs", 0) + len(runs)
        for run in runs:
            computed = imported.run_id(name, imported.log_of(run), run.arm, run.seed, run.control, run.axes)
            if computed != run.id:
                yield Finding("id", path, f"what names run {run.id} gives the id {computed}: the folder was renamed, "
                              f"or one of them was changed. {again}")  # fmt: skip
