"""What trained models drew, from the raw runs: pictures as files, pages for a frame that can do nothing.

A run's folder is opened from the results folder down, and nothing in it through a link.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from normbench.reading import tail
from normbench.runs import lookup
from normbench.runs.record import RunRecord

PICTURES = {".svg": "image/svg+xml", ".png": "image/png"}
PAGE = ".html"
TYPES = {  # of the files that are shown
    PAGE: "text/html; charset=utf-8",
    **PICTURES,
    ".json": "application/json",
    ".txt": "text/plain; charset=utf-8",
}
LARGEST = 8 << 20  # bytes of one that is asked for by itself
WITHIN = 1 << 19  # the same of one that stands in a page of the report
# Before what a page brings along: whatever it asks for, nothing is loaded.
LOCK = (
    '<!doctype html><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" '
    "content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'\">"
)


@contextmanager
def below(results: Path, path: Path) -> Iterator[int]:
    """A folder, opened from the results folder down without following a link. OSError where that cannot be."""
    handle = os.open(results, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for part in path.relative_to(results).parts:
            inside = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=handle)
            os.close(handle)
            handle = inside
        yield handle
    finally:
        os.close(handle)


@contextmanager
def _samples(folder: int) -> Iterator[int]:
    handle = os.open("samples", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
    try:
        yield handle
    finally:
        os.close(handle)


def names(folder: int, most: int = LARGEST) -> list[str]:
    """The samples of an open run folder that can be shown: regular files of known types, of at most so many bytes."""
    try:
        with _samples(folder) as inside:
            known = sorted(
                name for name in os.listdir(inside) if Path(name).suffix in TYPES and not name.startswith(".")
            )
            told = {name: os.stat(name, dir_fd=inside, follow_symlinks=False) for name in known}
    except OSError:
        return []
    return [name for name, found in told.items() if stat.S_ISREG(found.st_mode) and found.st_size <= most]


def read(folder: int, name: str) -> bytes:
    """One of these. OSError where it has become something else."""
    with _samples(folder) as inside:
        return tail(name, LARGEST, inside)


def find(results: Path, runs: Iterable[RunRecord]) -> list[tuple[RunRecord, list[tuple[str, bytes]]]]:
    """Of every arm at its own setting the run with the lowest seed that has samples, with their names and contents."""
    raw = lookup.below(results / "runs")
    chosen: dict[tuple[str, str], tuple[RunRecord, list[tuple[str, bytes]]]] = {}
    for run in sorted(runs, key=lambda run: run.seed):
        place = run.arm, repr(sorted(run.axes.items()))
        if run.control or place in chosen:
            continue
        ended = [stored.path for stored in raw.stored([run.id]) if stored.state == "done"]
        if ended and (files := _files(results, ended[-1])):
            chosen[place] = run, files
    return list(chosen.values())


def _files(results: Path, run: Path) -> list[tuple[str, bytes]]:
    try:
        with below(results, run) as folder:
            known = [name for name in names(folder, WITHIN) if Path(name).suffix in (*PICTURES, PAGE)]
            return [(name, read(folder, name)) for name in known]
    except OSError:
        return []


@dataclass(frozen=True)
class Sample:
    """One file: `src` is where a picture lies below the site's folder, `page` the text of a page for a frame."""

    name: str
    src: str = ""
    page: str = ""


def put(
    found: Iterable[tuple[RunRecord, Sequence[tuple[str, bytes]]]], folder: Path
) -> list[tuple[RunRecord, list[Sample]]]:
    """Pictures are written into `folder`, under names of ours; pages become text."""
    return [(run, [_sample(*file, folder, f"{run.id}-{i}") for i, file in enumerate(files)]) for run, files in found]


def pictures(found: Iterable[tuple[RunRecord, Sequence[Sample]]]) -> dict[str, list[tuple[RunRecord, Sample]]]:
    """The pictures by name, those of all runs beside each other; numbers in a name count as such."""
    by_name: dict[str, list[tuple[RunRecord, Sample]]] = {}
    for run, files in found:
        for file in files:
            if file.src:
                by_name.setdefault(file.name, []).append((run, file))
    return {name: by_name[name] for name in sorted(by_name, key=_in_order)}


def _in_order(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]


def _sample(name: str, content: bytes, folder: Path, own: str) -> Sample:
    called, suffix = Path(name).stem, Path(name).suffix
    if suffix not in PICTURES:
        return Sample(called, page=LOCK + content.decode("utf-8", "replace"))
    (folder / f"{own}{suffix}").write_bytes(content)
    return Sample(called, src=f"{folder.name}/{own}{suffix}")
