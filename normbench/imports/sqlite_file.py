"""Stores in SQLite, read from a copy: who logs may be writing, and SQLite leaves files beside what it opens."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from normbench.files import reading
from normbench.imports import mlflow_store, trackio_store
from normbench.imports.log import LARGEST, Log, refuse

MAGIC = b"SQLite format 3\0"
BESIDE = ("-wal", "-journal")  # endings of the files with what is not yet in the store, or is to be undone
TRIES = 5
STORES: dict[str, tuple[set[str], Callable[..., list[Log]]]] = {  # each with the tables that tell it
    "trackio": ({"metrics", "configs"}, trackio_store.read),
    "mlflow": ({"experiments", "runs", "metrics", "params", "tags"}, mlflow_store.read),
}


def read(content: bytes, path: Path, log: dict[str, Any], declared: str | None = None) -> list[Log]:
    """The runs of a store; none where it is of another program, or of another source than the declared one."""
    if not content.startswith(MAGIC):
        return []
    content, beside = _settled(content, path)
    file = {**log["file"], "sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    with TemporaryDirectory(prefix="normbench-") as folder:
        copy = Path(folder, "store.db")
        copy.write_bytes(content)
        for end, written in beside.items():
            Path(f"{copy}{end}").write_bytes(written)
        try:
            with closing(sqlite3.connect(copy)) as store:
                store.execute("PRAGMA trusted_schema = OFF")
                tables = {name for (name,) in store.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
                for source, (needed, reader) in STORES.items():
                    if needed <= tables and declared in (None, source):
                        return reader(store, path, {**log, "file": file})
        except sqlite3.Error as error:
            raise refuse(path, f"cannot be read as a store in SQLite: {error}") from None
    return []


def _settled(content: bytes, path: Path) -> tuple[bytes, dict[str, bytes]]:
    """The store, and what lies beside it, as they were at one moment: the store is the same before and after."""
    for _ in range(TRIES):
        beside = {end: written for end in BESIDE if (written := _content(Path(f"{path}{end}")))}
        again = reading.read(path, LARGEST)
        if again == content:
            return content, beside
        content = again
    raise refuse(path, "is written to faster than it can be read: import it later, or a copy of it.")


def _content(path: Path) -> bytes:
    try:
        return reading.read(path, LARGEST)
    except FileNotFoundError:
        return b""
