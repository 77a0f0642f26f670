"""What trained models drew: the pictures and pages in the folders of raw runs, none of them behind a link."""

from __future__ import annotations

import stat
from collections.abc import Callable, Sequence
from pathlib import Path

from normbench.files.reading import tail
from normbench.runs import directory

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


def names(folder: Path, most: int = LARGEST) -> list[str]:
    """The samples of a run that can be shown: regular files of known types, of at most so many bytes."""
    inside = folder / "samples"
    if folder.is_symlink() or inside.is_symlink() or not inside.is_dir():
        return []
    listed = sorted(path for path in inside.iterdir() if path.suffix in TYPES and not path.name.startswith("."))
    stats = {path.name: path.lstat() for path in listed}
    return [name for name, status in stats.items() if stat.S_ISREG(status.st_mode) and status.st_size <= most]


def read(folder: Path, name: str) -> bytes:
    """One of these. OSError where it has become something else."""
    return tail(folder / "samples" / name, LARGEST)


def can_be_published(name: str) -> bool:
    """Whether a file called so is a picture or a page, and a name that every machine can write."""
    writable = name.isprintable() and not name.startswith(".") and not {"/", "\\"} & {*name}
    return writable and Path(name).suffix in (*PICTURES, PAGE)


def of_raw(places: Sequence[Path]) -> Callable[[str], dict[str, bytes]]:
    """Of a finished run with an id what can be published, by name; nothing where there is no such run."""
    paths: dict[str, list[Path]] = {}
    for place in places:
        for path in directory.listed(place / "runs"):
            paths.setdefault(path.name[-12:], []).append(path)

    def samples_of(run_id: str) -> dict[str, bytes]:
        done = (path for path in paths.get(run_id, ()) if directory.read(path).status == "done")
        return next(map(_files, done), {})

    return samples_of


def _files(run: Path) -> dict[str, bytes]:
    try:
        return {name: read(run, name) for name in names(run, WITHIN) if can_be_published(name)}
    except OSError:
        return {}
