"""Files that are whole or absent: write aside, flush to disk, rename; JSON with one text per value, and its hash."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from normbench.errors import BadInput, Busy, class_of
from normbench.files import durable, locks

RESULTS = "--results or NORMBENCH_RESULTS"  # what says where results lie
LONGEST = 600  # s that another command is waited for
_PASSING = re.compile(r"\..+\.\d+\.tmp|\..+\.normbench-(aside|old)")  # of `atomic_write`, of a site
_encode = json.JSONEncoder(sort_keys=True, allow_nan=False).encode
_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


def atomic_write(path: Path, content: bytes) -> None:
    """Replace `path` by `content`, or leave it as it was."""
    with atomic(path) as file:
        file.write(content)


@contextmanager
def atomic(path: Path) -> Iterator[BinaryIO]:
    """A file that takes the place of `path` at the end: temporary file, fsync, rename, fsync of the folder."""
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(aside, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        durable.replace(aside, path)
    except BaseException as error:
        if isinstance(error, OSError) and error.filename is None:  # as where the disk is full
            error.filename = str(path)
        aside.unlink(missing_ok=True)
        raise


def is_leftover(name: str) -> bool:
    """Whether only a killed command leaves a file or folder of this name; while one writes, it holds a lock."""
    return bool(_PASSING.fullmatch(name))


def sweep(folder: Path, pattern: str = ".*.tmp") -> None:
    """Remove what killed commands left in a folder; the caller holds its lock."""
    for path in folder.glob(pattern):
        if is_leftover(path.name):
            path.unlink(missing_ok=True)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Two commands of this host that write into `folder` go one after the other, and sweep what a killed one left.

    Where nothing can be written, nobody writes. The folder itself is locked: nothing of the lock is left in it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        yield
        return
    try:
        if not locks.take(handle, folder, LONGEST):
            raise Busy(
                f"{folder} has been written by another process for {LONGEST // 60} minutes. Wait for it, or end it, "
                "and repeat the command."
            )
        sweep(folder)
        yield
    finally:
        os.close(handle)


def write_json(path: Path, value: Any) -> None:
    atomic_write(path, (json.dumps(value, indent=1, sort_keys=True) + "\n").encode())


def line(record: Mapping[str, Any]) -> bytes:
    """One line of a curve: keys sorted, shortest round-trip floats, non-finite numbers as "NaN", "Infinity"."""
    try:
        text = _encode(dict(record))
    except ValueError:  # a number that is not finite
        text = _encode({key: _finite(value) for key, value in record.items()})
    return (text + "\n").encode()


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    return value


def seal(content: Any) -> str:
    """The SHA-256 of a JSON value, whatever the order of its keys and the spaces between them."""
    return hashlib.sha256(_canonical(content).encode()).hexdigest()


def check_folder(file: Path, option: str) -> None:
    """NormbenchError where the folder of a file that a user named is not there: its name may have a typo."""
    if not file.parent.is_dir():
        raise BadInput(f"{option} {file}: there is no folder {file.parent}.")


def make_folder(path: Path, option: str = RESULTS) -> None:
    """Create a folder, for good, or say in one line why it cannot be. option: what chooses another place."""
    try:
        made = [folder for folder in (path, *path.parents) if not folder.exists()]
        path.mkdir(parents=True, exist_ok=True)
        for folder in made:
            durable.sync_folder(folder.parent)
    except OSError as error:
        raise class_of(error)(
            f"{path} cannot be made: {error.strerror}. Choose a writable place with {option}."
        ) from None
