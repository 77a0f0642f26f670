"""What trained models drew, from the raw runs: pictures as files, pages for a frame that can do nothing."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from normbench.runs import store
from normbench.runs.record import RunRecord

PICTURES = (".png", ".svg")
LARGEST = 1 << 19  # bytes of one file; larger ones are left out
# Before what a page brings along: whatever it asks for, nothing is loaded.
LOCK = (
    '<!doctype html><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" '
    "content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'\">"
)


def finished(results: Path) -> dict[str, Path]:
    """The raw runs that came to their end, by id."""
    return {s.id: s.path for s in store.scan(results / "runs") if s.state == "done"}


def find(stored: Mapping[str, Path], runs: Iterable[RunRecord]) -> list[tuple[RunRecord, list[Path]]]:
    """Of every arm at its own setting the run with the lowest seed that has samples, with their files."""
    chosen: dict[tuple[str, str], tuple[RunRecord, list[Path]]] = {}
    for run in sorted(runs, key=lambda run: run.seed):
        place = run.arm, repr(sorted(run.axes.items()))
        if run.id in stored and not run.control and place not in chosen and (files := _files(stored[run.id])):
            chosen[place] = run, files
    return list(chosen.values())


def _files(run: Path) -> list[Path]:
    folder = run / "samples"
    if folder.is_symlink() or not folder.is_dir():
        return []
    return sorted(
        path
        for path in folder.iterdir()
        if path.suffix in (*PICTURES, ".html")
        and not path.is_symlink()
        and path.is_file()
        and path.stat().st_size <= LARGEST
    )


@dataclass(frozen=True)
class Sample:
    """One file: `src` is where a picture lies below the site's folder, `page` the text of a page for a frame."""

    name: str
    src: str = ""
    page: str = ""


def put(found: Iterable[tuple[RunRecord, Sequence[Path]]], folder: Path) -> list[tuple[RunRecord, list[Sample]]]:
    """Pictures are copied into `folder`, under names of ours; pages become text."""
    return [(run, [_sample(file, folder, f"{run.id}-{i}") for i, file in enumerate(files)]) for run, files in found]


def _sample(file: Path, folder: Path, name: str) -> Sample:
    if file.suffix not in PICTURES:
        return Sample(file.stem, page=LOCK + file.read_text(encoding="utf-8", errors="replace"))
    shutil.copyfile(file, folder / f"{name}{file.suffix}")
    return Sample(file.stem, src=f"{folder.name}/{name}{file.suffix}")
