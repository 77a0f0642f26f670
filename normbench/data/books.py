"""The novels of data=books: their sentences, and which of them are held out."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from pathlib import Path

from normbench.data import hub


def parts(titles: list[str]) -> dict[str, list[str]]:
    """The novels for training, validation and test: 2 of 19 each held out, by a hash of their names."""
    order = sorted(titles, key=lambda name: hashlib.sha256(name.encode()).hexdigest())
    held = len(order) * 2 // 19
    found = {"valid": order[:held], "test": order[held : 2 * held], "train": order[2 * held :]}
    return {part: sorted(names) for part, names in found.items()}


def sentences(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Each novel's name and sentences."""
    table = hub.columns(path, ("book", "text"))
    start = 0
    for name, group in itertools.groupby(table["book"]):
        count = len(list(group))
        yield name, table["text"][start : start + count]
        start += count
