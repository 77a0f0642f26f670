"""A log as its reader gives it, and the run that logs make together."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from normbench.errors import BadInput, NormbenchError

LARGEST = 1 << 31  # bytes of a file: event files may have pictures
UNPACKED = 1 << 28  # bytes of a table's text: in memory it takes ten times as much
MOST_COLUMNS, MOST_CELLS = 10_000, 10**8


@dataclass(frozen=True)
class Log:
    """One file: `tables` of pyarrow, in which null is a blank and NaN a number.

    `path`: that on which the map's regular expressions are tried. `clocks`: by series, the key that the tool itself has
    as its clock. `run`: the tool's own id. `lost`: bytes behind the last whole record. `file`: path, sha256, bytes.
    `began`: the time of the first event; `restarts`: the steps from which an event file takes earlier ones back.
    """

    file: Mapping[str, Any]
    path: str
    source: str
    tables: Sequence[Any]
    config: Mapping[str, Any] = field(default_factory=dict)
    clocks: Mapping[str, str] = field(default_factory=dict)
    run: str = ""
    lost: int = 0
    note: str = ""
    began: float = 0.0
    restarts: Sequence[int] = ()


class Question(BadInput):
    """What cannot be guessed. `answer`: lines of a map with an answer; `series`: of a question for splits, all."""

    def __init__(self, message: str, answer: str = "", series: Sequence[Mapping[str, Any]] = ()) -> None:
        super().__init__(message)
        self.answer, self.series = answer, series


def leaves(tree: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """`("model.norm", "ln")`: the values of an object, and of those in it, by dotted keys."""
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value


def flat(tree: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration by dotted keys; lists are JSON, and texts have no `${`."""
    entries: dict[str, Any] = {}
    for name, value in leaves(tree):
        if not isinstance(value, str | bool | int | float | None):
            value = json.dumps(value, default=str)
        plain = not isinstance(value, float) or abs(value) < float("inf")
        entries[escaped(name)] = escaped(value if plain else str(value))
    return entries


def escaped(value: Any) -> Any:
    """A text without `${`, which is refused in whatever a configuration is composed of."""
    return value.replace("${", "$\\{") if isinstance(value, str) else value


def refuse(path: Path | str, reason: str) -> NormbenchError:
    return BadInput(f"{path}: {reason}")


def check_size(path: Path | str, rows: int, columns: int) -> None:
    """Refuse a table that would not fit into memory, however short its file is."""
    if columns > MOST_COLUMNS:
        raise refuse(path, f"has more than {MOST_COLUMNS} columns, or keys.")
    if rows * columns > MOST_CELLS:
        raise refuse(path, f"has {rows} rows of {columns} columns, more than {MOST_CELLS} cells.")
