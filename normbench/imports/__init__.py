"""Reads curves that other programs logged, as runs like our own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from normbench.core import keys
from normbench.errors import BadInput, NormbenchError
from normbench.files import reading
from normbench.imports import guess, parts, runs, sources, tensorboard
from normbench.imports.log import Question
from normbench.imports.map_keys import Map
from normbench.runs.run import Run

SHOWN = 3  # files of which the same is said, by name


@dataclass(frozen=True)
class Read:
    """What was read: the runs, the whole map, and which keys of it were guessed. `notes`: lines about the files."""

    runs: Sequence[Run]
    map: Map
    guessed: dict[str, Any]
    notes: Sequence[str]


def read_map(path: Path) -> Map:
    """The map of a file. NormbenchError with one line that names it."""
    try:
        content = reading.load_yaml(reading.read(path, reading.LONGEST).decode())
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise BadInput(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    return keys.load(Map, content, path, "(all keys: examples/imports/lightning.yaml)")


def read(paths: Sequence[Path], name: str, map: Map | None = None) -> Read:
    """The runs below these paths. NormbenchError where the map is wrong for them, or a guess would not be safe."""
    map = map or Map()
    logs = sources.find(paths, map.source)
    if logs[0].source == "tensorboard":
        logs = tensorboard.merged(logs)
    guessed = guess.completed(map, logs)
    try:
        records, empty = runs.runs(name, parts.parts(logs, guessed.map), guessed.map)
    except NormbenchError as error:
        if not guessed.keys:
            raise
        if isinstance(error, Question):
            guessed.questions.append(error)
        raise guess.OpenMap(error, guess.draft(guessed)) from None
    left_out = [f"{key} is left out: it has no series of the map" for key in empty]
    return Read(records, guessed.map, guessed.keys, [*_notes(logs), *guessed.notes, *left_out])


def _notes(logs: Sequence[Any]) -> list[str]:
    """What each reader says of its file; else how much of it is lost."""
    cut_notes = {
        log.file["path"]: f"{log.lost} bytes after the last whole record are left out" for log in logs if log.lost
    }
    notes = cut_notes | {log.file["path"]: log.note for log in logs if log.note}
    paths: dict[str, list[str]] = defaultdict(list)
    for path, note in notes.items():
        paths[note].append(path)
    return [f"{_first(paths[note])}: {note}" for note in paths]


def _first(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - SHOWN} more" if len(paths) > SHOWN else ""
    return f"{', '.join(paths[:SHOWN])}{more}"
