"""What trained models drew: the pictures and pages in the folders of raw runs.

A run's folder is opened from the results folder down, and nothing in it through a link.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from normbench.reading import tail
from normbench.runs import store

PICTURES = {".svg": "image/svg+xml", ".png": "image/png"}
PAGE = ".html"
TYPES = {  # of the files that are shown
    PAGE: "text/html; charset=utf-8",
    **PICTURES,
    ".json": "application/json",
    ".txt": "text/plain; charset=utf-8",
}
LARGEST = 8 << 20  # bytes of one that is asked for by itself
WITHIN = 1 << 19  # the same of one that is published, or stands in a page of the report


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
            listed = sorted(
                name for name in os.listdir(inside) if Path(name).suffix in TYPES and not name.startswith(".")
            )
            stats = {name: os.stat(name, dir_fd=inside, follow_symlinks=False) for name in listed}
    except OSError:
        return []
    return [name for name, found in stats.items() if stat.S_ISREG(found.st_mode) and found.st_size <= most]


def read(folder: int, name: str) -> bytes:
    """One of these. OSError where it has become something else."""
    with _samples(folder) as inside:
        return tail(name, LARGEST, inside)


def can_be_published(name: str) -> bool:
    """Whether a file called so is a picture or a page, and a name that every machine can write."""
    writable = name.isprintable() and not name.startswith(".") and not {"/", "\\"} & {*name}
    return writable and Path(name).suffix in (*PICTURES, PAGE)


def of_raw(places: Sequence[Path]) -> Callable[[str], dict[str, bytes]]:
    """Of a finished run with an id what can be published, by name; nothing where there is no such run."""
    listed: dict[Path, dict[str, list[store.Stored]]] = {place: {} for place in places}
    for place, by_id in listed.items():
        for run in store.directories(place / "runs"):
            by_id.setdefault(run.id, []).append(run)

    def found(run_id: str) -> dict[str, bytes]:
        for place, by_id in listed.items():
            ended = [
                stored.path for stored in store.by_id([run_id], by_id.get(run_id, []), False) if stored.state == "done"
            ]
            if ended:
                return _files(place, ended[-1])
        return {}

    return found


def _files(results: Path, run: Path) -> dict[str, bytes]:
    try:
        with below(results, run) as folder:
            wanted = [name for name in names(folder, WITHIN) if can_be_published(name)]
            return {name: read(folder, name) for name in wanted}
    except OSError:
        return {}
