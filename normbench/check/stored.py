"""What lies below a results folder besides what is published: leftovers, imports, raw runs."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from normbench.check.ids import Ids
from normbench.errors import NormbenchError
from normbench.runs import checkpoint_file, directory, files, imported, pack
from normbench.runs.directory import Damaged, why
from normbench.runs.run import FINISHED, Run

HARMLESS = ("leftover", "unknown", "shared")  # reported, but no damage


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong: its kind, its place, and a line with the problem and the remedy."""

    kind: str
    place: Path
    text: str

    @property
    def harmless(self) -> bool:
        return self.kind in HARMLESS


def leftovers(results: Path, repair: bool, counted: dict[str, int]) -> Iterator[Finding]:
    """What killed commands left: files on their way, and checkpoints of finished runs.

    `repair` removes them, under the lock that a writer takes.
    """
    for folder, folders, names in os.walk(results):
        counted["files"] += len(folders) + len(names)
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


def imports(results: Path, counted: dict[str, int]) -> Iterator[Finding]:
    """Runs that other programs logged: their packs are whole, and each run has the id of what names it."""
    for name in imported.names(results):
        path, again = imported.place(results, name), f"Import the logs again --as {name}"
        try:
            runs = pack.whole(path).runs
        except NormbenchError as error:
            yield Finding("damage", path, str(error).removeprefix(f"{path} "))
            continue
        counted["imported runs"] = counted.get("imported runs", 0) + len(runs)
        for run in runs:
            computed = imported.run_id(name, imported.log_of(run), run.arm, run.seed, run.control, run.axes)
            if computed != run.id:
                yield Finding("id", path, f"what names run {run.id} gives the id {computed}: the folder was renamed, "
                              f"or one of them was changed. {again}")  # fmt: skip


def raw(run: Run, ids: Ids) -> Iterator[Finding]:
    """A raw run: its id, curve, every other file by its hash, and the checkpoint of an unfinished one.

    Of one that is being written only what is wrong with its run.json.
    """
    path = run.path
    again = f"Delete {path} to train this run again"
    if run.status == "damaged":
        yield Finding("damage", path, f"{run.reason}. {again}")
        return
    if directory.is_locked(path):
        return
    if run.config:
        yield from _id(run, ids, again)
    curve, finished = path / "curve.jsonl", run.status in FINISHED
    if finished or curve.exists():
        try:
            directory.curve(run)
        except Damaged as damage:
            yield Finding("damage" if curve.exists() else "missing", curve, f"{damage}. {again}")
    for name, wrong in directory.differences(run) if finished or run.files else ():
        sample = f"Draw it again: normbench sample {path.name[-12:]}" if name.startswith("samples/") else ""
        yield Finding("missing" if wrong == "it is missing" else "damage", path / name, f"{wrong}. {sample or again}")
    if not finished:
        yield from _checkpoint(path, again)


def _id(run: Run, ids: Ids, again: str) -> Iterator[Finding]:
    place = run.path / directory.NAME
    try:
        computed = ids.of(run.config, run.id)
    except NormbenchError as error:
        reason = f"the run's id cannot be computed here: {str(error).rstrip('.')}"
        yield Finding("unknown", place, f"{reason}. Choices of your own are found with --config-dir")
    else:
        if computed != run.id:
            yield Finding("id", place, f"its configuration gives the id {computed}: it was changed, or this version "
                          f"computes otherwise. {again}")  # fmt: skip


def _checkpoint(run: Path, again: str) -> Iterator[Finding]:
    path = run / checkpoint_file.NAME
    if not path.exists():
        return
    try:
        progress, _ = checkpoint_file.read(path)
        begun = (run / "curve.jsonl").read_bytes()[: progress["curve_bytes"]]
        if hashlib.sha256(begun).hexdigest() != progress["curve_sha256"]:
            raise ValueError("curve.jsonl does not begin as it remembers")
    except (OSError, ValueError) as error:
        yield Finding("damage", path, f"{why(error)}. {again}")
