"""What trained models drew, on a page: pictures as files, pages in a frame that can do nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from normbench.runs.record import RunRecord
from normbench.runs.samples import PICTURES

# Before what a page brings along: whatever it asks for, nothing is loaded.
LOCK = (
    '<!doctype html><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" '
    "content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'\">"
)


_EARLY = re.compile(r"step-(\d{1,12})-(.+)")


@dataclass(frozen=True)
class Sample:
    """One file: `src` is where a picture lies below the site's folder, `page` the text of a page for a frame."""

    name: str
    src: str = ""
    page: str = ""


def put(found: Iterable[tuple[RunRecord, Mapping[str, bytes]]], folder: Path) -> list[tuple[RunRecord, list[Sample]]]:
    """Pictures are written into `folder`, under names of ours; pages become text."""
    return [
        (run, [_sample(*file, folder, f"{run.id}-{i}") for i, file in enumerate(files.items())]) for run, files in found
    ]


def pictures(found: Iterable[tuple[RunRecord, Sequence[Sample]]]) -> dict[str, list[tuple[RunRecord, Sample]]]:
    """The pictures by what they are of, those of all runs beside each other: at the end, then by update."""
    by_name: dict[str, list[tuple[RunRecord, Sample]]] = {}
    for run, files in found:
        for file in files:
            if file.src:
                by_name.setdefault(file.name, []).append((run, file))
    return {_spoken(name): by_name[name] for name in sorted(by_name, key=_parted)}


def _parted(name: str) -> tuple[str, int]:
    """What a picture is of, and after which update, 0 for the end: as runs name them."""
    early = _EARLY.fullmatch(name)
    return (early[2], int(early[1])) if early else (name, 0)


def _spoken(name: str) -> str:
    of, update = _parted(name)
    return f"{of}, after {update} updates" if update else of


def _sample(name: str, content: bytes, folder: Path, own: str) -> Sample:
    called, suffix = Path(name).stem, Path(name).suffix
    if suffix not in PICTURES:
        return Sample(called, page=LOCK + content.decode("utf-8", "replace"))
    (folder / f"{own}{suffix}").write_bytes(content)
    return Sample(called, src=f"{folder.name}/{own}{suffix}")
