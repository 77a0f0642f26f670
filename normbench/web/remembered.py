"""A cache of parsed result files: one sqlite file per results folder, in the user's cache folder.

It is disposable. Every row has a checksum and the stamp (number, time, size) of its file: a damaged or outdated row
counts as missing. Where no file can be written, the cache lives as long as the process.
"""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import normbench
from normbench.data.files import cache
from normbench.runs import pack, store
from normbench.runs.stamps import Stamp, settled

SCHEMA = 2
FORGOTTEN = 90 * 86400  # s since a results folder's file was written
SHORT = 1000  # bytes that are not compressed
WAIT = 0.5  # s for another dashboard that is writing

DAMAGE = (sqlite3.Error, ValueError, TypeError, OverflowError)  # what sqlite3 raises on a file that is none

ALWAYS: Stamp = (0, 0, 0)  # the stamp of what is of no file


class Remembered:
    """Texts and facts by (kind, key), each as of one stamp of the file it was taken from."""

    def __init__(self, results: Path) -> None:
        self.path = cache("dashboard") / f"{hashlib.sha256(str(results.resolve()).encode()).hexdigest()[:16]}.sqlite"
        self._fresh: dict[tuple[str, str], tuple[str, bytes]] = {}
        self._base = self._opened() or self._new(":memory:")

    def get(self, kind: str, key: str, of: Stamp | None) -> bytes | None:
        """What was put there for a file with this stamp."""
        wanted = repr(of)
        if (kind, key) in self._fresh:
            found = self._fresh[kind, key]
            return found[1] if found[0] == wanted else None
        with self._safe():
            row = self._base.execute("SELECT stamp, content, sum FROM rows WHERE kind=? AND key=?", (kind, key))
            at, content, digest = row.fetchone() or ("", b"", "")
            if isinstance(content, bytes) and at == wanted and digest == _sum(kind, key, at, content):
                with contextlib.suppress(zlib.error):
                    return _unpacked(content)
        return None

    def put(self, kind: str, key: str, of: Stamp | None, content: bytes, and_of: Stamp | None = ALWAYS) -> None:
        """Kept for good by the next `save`, unless the file may change once more within this stamp.

        and_of: the stamp of a second file that it was taken from.
        """
        if settled(of) and settled(and_of):
            self._fresh[kind, key] = (repr(of if and_of == ALWAYS else (of, and_of)), content)

    def save(self) -> None:
        """Write what is fresh; where that cannot be, it stays in memory."""
        if not self._fresh:
            return
        with self._safe():
            self._base.executemany(
                "INSERT OR REPLACE INTO rows VALUES (?, ?, ?, ?, ?)", self._rows(self._fresh.items())
            )
            self._base.commit()
            self._fresh.clear()

    def of_kind(self, kind: str) -> dict[str, tuple[str, bytes]]:
        """All of one kind by key: the stamp, as `repr` has it, and the content; one by one takes much longer."""
        found: dict[str, tuple[str, bytes]] = {}
        with self._safe():
            for key, at, content, digest in self._base.execute(
                "SELECT key, stamp, content, sum FROM rows WHERE kind=?", (kind,)
            ):
                if isinstance(content, bytes) and digest == _sum(kind, key, at, content):
                    with contextlib.suppress(zlib.error):
                        found[key] = at, _unpacked(content)
        return found

    def close(self) -> None:
        self._base.close()

    @staticmethod
    def _rows(
        fresh: Iterable[tuple[tuple[str, str], tuple[str, bytes]]],
    ) -> Iterator[Sequence[object]]:
        for (kind, key), (at, content) in fresh:
            packed = b"z" + zlib.compress(content, 1) if len(content) > SHORT else b"-" + content
            yield kind, key, at, packed, _sum(kind, key, at, packed)

    @contextlib.contextmanager
    def _safe(self) -> Iterator[None]:
        """A base that is busy is asked again later; one that fails is left for one in memory, and gone."""
        try:
            yield
        except DAMAGE as error:
            with contextlib.suppress(sqlite3.Error):
                self._base.rollback()
            if "locked" in str(error):
                return
            with contextlib.suppress(sqlite3.Error):
                self._base.close()
            self._discard(error)
            self._base = self._new(":memory:")

    def _opened(self) -> sqlite3.Connection | None:
        """The file's base; one that is damaged is begun anew. None where there can be none."""
        for _ in range(2):
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                for other in self.path.parent.glob("*.sqlite"):
                    if time.time() - other.stat().st_mtime > FORGOTTEN:
                        other.unlink()
                return self._new(str(self.path))
            except OSError:
                return None
            except DAMAGE as error:
                if not self._discard(error):
                    return None
        return None

    def _discard(self, error: Exception) -> bool:
        """Delete the file, unless the error is of the place or of its other users."""
        if any(word in str(error) for word in ("locked", "unable to open", "readonly", "full", "disk I/O")):
            return False
        with contextlib.suppress(OSError):
            self.path.unlink()
        return True

    @staticmethod
    def _new(place: str) -> sqlite3.Connection:
        """A base with the one table, of this version."""
        base = sqlite3.connect(place, timeout=WAIT, check_same_thread=False)
        try:
            version = f"{SCHEMA} {normbench.__version__} {store.SCHEMA} {pack.SCHEMA}"
            base.execute("CREATE TABLE IF NOT EXISTS version (text TEXT)")
            if base.execute("SELECT text FROM version").fetchall() != [(version,)]:
                base.executescript("DROP TABLE IF EXISTS rows; DELETE FROM version")
                base.execute("INSERT INTO version VALUES (?)", (version,))
            base.execute(
                "CREATE TABLE IF NOT EXISTS rows (kind TEXT, key TEXT, stamp TEXT, content BLOB, sum TEXT,"
                " PRIMARY KEY (kind, key)) WITHOUT ROWID"
            )
            base.commit()
        except DAMAGE:
            base.close()
            raise
        return base


def _unpacked(content: bytes) -> bytes:
    return zlib.decompress(content[1:]) if content[:1] == b"z" else content[1:]


def _sum(kind: str, key: str, at: str, content: bytes) -> str:
    return hashlib.blake2b(f"{kind}\0{key}\0{at}\0".encode() + bytes(content), digest_size=12).hexdigest()
