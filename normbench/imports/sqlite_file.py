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
ENDS = ("-wal", "-journal", "")  # beside the store: what is not yet in it, what is to be undone
TRIES = 5
STORES: dict[str, tuple[set[str], Callable[..., list[Log]]]] = {  # each with the tables that tell it
    "trackio": ({"metrics", "configs"}, trackio_store.read),
    "mlflow": ({"experiments", "runs", "metrics", "params", "tags"}, mlflow_store.read),
}


def read(content: bytes, path: Path, log: dict[str, Any], declared: str | None = None) -> list[Log]:
    """The runs of a store; none where it is of another program, or of another source than the declared one."""
    if not content.startswith(MAGIC):
        return []
    contents = _settled(path)
    file = {**log["file"], "sha256": hashlib.sha256(contents[""]).hexdigest(), "bytes": len(contents[""])}
    with TemporaryDirectory(prefix="normbench-") as folder:
        for end, content in contents.items():
            Path(folder, f"store.db{end}").write_bytes(content)
        try:
            with closing(sqlite3.connect(Path(folder, "store.db"))) as store:
                store.execute("PRAGMA trusted_schema = OFF")
                tables = {name for (name,) in store.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
                for source, (needed, reader) in STORES.items():
                    if needed <= tables and declared in (None, source):
                        return reader(store, path, {**log, "file": file})
        except sqlite3.Error as error:
            raise refuse(path, f"cannot be read as a store in SQLite: {error}") from None
    return []


def _settled(path: Path) -> dict[str, bytes]:
    """The store and what lies beside it at one moment: read again, they are the same."""
    last = None
    for _ in range(TRIES):
        paths = {end: Path(f"{path}{end}") for end in ENDS}
        contents = {end: reading.read(path, LARGEST) for end, path in paths.items() if path.is_file()}
        if contents == last:
            return contents
        last = contents
    raise refuse(path, "is written to faster than it can be read: import it later, or a copy of it.")
