"""Samples of trained models on a page: pictures as files, HTML in a sandboxed frame."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from normbench.runs.run import Run
from normbench.runs.samples import PICTURES

# In front of a sample's HTML: it can load nothing.
LOCK = (
    '<!doctype html><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" '
    "content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'\">"
)
_EARLY = re.compile(r"step-(\d{1,12})-(.+)")


@dataclass(frozen=True)
class Sample:
    """One file: `src` is the path of a picture below the site's folder, `page` the HTML for a frame."""

    name: str
    src: str = ""
    page: str = ""


def put(files_of_runs: Iterable[tuple[Run, Mapping[str, bytes]]], folder: Path) -> list[tuple[Run, list[Sample]]]:
    """Write pictures into `folder`, under names of ours; HTML is returned as text."""
    return [
        (run, [_sample(*file, folder, f"{run.id}-{i}") for i, file in enumerate(files.items())])
        for run, files in files_of_runs
    ]


Row = list[tuple[Run, Sample]]


def pictures(samples_of_runs: Iterable[tuple[Run, Sequence[Sample]]]) -> dict[str, dict[int, Row]]:
    """The pictures of all runs by their subject and update, 0 for the end."""
    rows: dict[tuple[str, int], Row] = {}
    for run, files in samples_of_runs:
        for file in files:
            if file.src:
                rows.setdefault(_subject_and_update(file.name), []).append((run, file))
    ordered = sorted(rows, key=lambda row: (_natural_order(row[0]), row[1]))
    return {
        subject: {update: rows[subject, update] for other, update in ordered if other == subject}
        for subject, _ in ordered
    }


def _natural_order(name: str) -> list[tuple[int, str]]:
    """Sort key of a name in which numbers are compared as numbers."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]


def _subject_and_update(name: str) -> tuple[str, int]:
    """The subject of a picture and its update, 0 for the end, from its file name."""
    early = _EARLY.fullmatch(name)
    return (early[2], int(early[1])) if early else (name, 0)


def _sample(name: str, content: bytes, folder: Path, stem: str) -> Sample:
    title, suffix = Path(name).stem, Path(name).suffix
    if suffix not in PICTURES:
        return Sample(title, page=LOCK + content.decode("utf-8", "replace"))
    (folder / f"{stem}{suffix}").write_bytes(content)
    return Sample(title, src=f"{folder.name}/{stem}{suffix}")
