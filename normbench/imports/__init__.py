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
from normbench.imports.log import Log, Question
from normbench.imports.map_keys import Map
from normbench.imports.words import listed
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


def _notes(logs: Sequence[Log]) -> list[str]:
    """What each reader says of its file; first what is cut."""
    paths: dict[str, list[str]] = defaultdict(list)
    for log in sorted(logs, key=lambda log: not log.lost):
        if log.note:
            paths[log.note].append(log.file["path"])
    return [f"{listed(of_note, SHOWN)}: {note}" for note, of_note in paths.items()]
