"""Files that are whole or absent: write aside, flush to disk, rename; JSON with one text per value, and its hash.

And the one way to read what may be anybody's: regular files, not through a link, of a size; JSON of a depth.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import math
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from normbench.errors import NormbenchError

NO_FILE = "it is no regular file"
DEEPEST = 50  # levels of a value: what walks through one does so by recursion
MOST = 100_000  # values in one, where each alias of YAML counts as all that it stands for; characters of a text
HIGHEST = 2**63  # of a whole number, as others store it
_encode = json.JSONEncoder(sort_keys=True, allow_nan=False).encode


def atomic_write(path: Path, content: bytes) -> None:
    """Replace `path` by `content`, or leave it as it was: temporary file, fsync, rename, fsync of the folder."""
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(aside, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
        sync_folder(path.parent)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


@contextmanager
def opened(path: str | Path, most: int = 1 << 62, dir_fd: int | None = None) -> Iterator[BinaryIO]:
    """A regular file of at most so many bytes, to be read. OSError for all else: a pipe keeps its reader waiting."""
    handle = at_once(path, os.O_RDONLY) if dir_fd is None else at_once(path, os.O_RDONLY, dir_fd)
    with open(handle, "rb") as file:
        _check(os.fstat(handle), most)
        yield file


def at_once(path: str | Path, flags: int, dir_fd: int | None = None) -> int:
    """An opener that waits for nobody at the other end of a pipe, and follows no link."""
    try:
        return os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW, 0o666, dir_fd=dir_fd)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "it is a link", str(path)) from None
        raise


def _check(found: os.stat_result, most: int) -> None:
    if not stat.S_ISREG(found.st_mode):
        number = errno.EISDIR if stat.S_ISDIR(found.st_mode) else errno.EINVAL
        raise OSError(number, "Is a directory" if number == errno.EISDIR else NO_FILE)
    if found.st_size > most:
        raise OSError(errno.EFBIG, f"it is larger than {most >> 20} MiB")


def read(path: str | Path, most: int) -> bytes:
    """What a regular file of at most so many bytes holds. OSError for all else."""
    handle = at_once(path, os.O_RDONLY)  # not `opened`: thousands of small files are read at once
    try:
        found = os.fstat(handle)
        _check(found, most)
        parts, left = [], most
        while part := os.read(handle, min(left + 1, max(found.st_size, 1 << 16))):
            parts.append(part)
            if (left := left - len(part)) < 0:  # one that grows without end has no size
                raise OSError(errno.EFBIG, f"it is larger than {most >> 20} MiB")
        return b"".join(parts)
    finally:
        os.close(handle)


def tail(path: str | Path, most: int, dir_fd: int | None = None) -> bytes:
    """The end of a regular file, at most so many bytes. OSError for all else."""
    with opened(path, dir_fd=dir_fd) as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - most))
        return file.read(most)


def decode(text: str | bytes) -> Any:
    """A JSON value whose texts can be written again; NaN and Infinity are none. ValueError for all else.

    For what is then checked part by part; all else by `parse`.
    """
    return _decoded(text.decode() if isinstance(text, bytes) else text, _FAST)


def parse(text: str | bytes) -> Any:
    """A JSON value that whoever walks through it, prints or stores it can rely on. ValueError for all else."""
    text = text.decode() if isinstance(text, bytes) else text
    value = _decoded(text, _CAREFUL)
    if text.count("[") + text.count("{") > DEEPEST or len(text) > MOST:
        check_plain(value)
    return value


def _decoded(text: str, decoder: json.JSONDecoder) -> Any:
    try:
        value = decoder.decode(text)
        if "\\ud" in text or "\\uD" in text:  # half a character, which no file and no terminal takes
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return value


def _refuse(name: str) -> None:
    raise ValueError(f"it has the number {name}")


def _number(kind: type[int] | type[float]) -> Callable[[str], int | float]:
    def read(text: str) -> int | float:
        if abs(value := kind(text)) >= (HIGHEST if kind is int else math.inf):
            raise ValueError("a number in it is too large")
        return value

    return read


_FAST = json.JSONDecoder(parse_constant=_refuse)
_CAREFUL = json.JSONDecoder(parse_constant=_refuse, parse_int=_number(int), parse_float=_number(float))


def check_plain(value: Any, finite: bool = True) -> None:
    """ValueError where a value is no JSON (YAML has more), too deep or too large, or a number in it is no float."""
    waiting, count = [(value, 0)], 0
    while waiting:
        one, depth = waiting.pop()
        if (count := count + 1) > MOST:  # a few lines of YAML can stand for millions
            raise ValueError(f"it stands for more than {MOST} values")
        if isinstance(one, dict | list):
            if depth >= DEEPEST:
                raise ValueError("it is nested too deeply")
            if isinstance(one, dict) and not all(isinstance(key, str | int | float) for key in one):
                raise ValueError("a key in it is neither text nor a number")
            waiting += [(inner, depth + 1) for inner in ((*one, *one.values()) if isinstance(one, dict) else one)]
        elif isinstance(one, str):
            if len(one) > MOST:
                raise ValueError(f"a text in it has more than {MOST} characters")
            one.encode()
        elif isinstance(one, int):
            if not -HIGHEST <= one < HIGHEST:
                raise ValueError("a number in it is too large")
        elif isinstance(one, float):
            if finite and not math.isfinite(one):  # 1e999 is read as infinity
                raise ValueError(f"it has the number {one}")
        elif one is not None:
            raise ValueError(f"it has a {type(one).__name__}")


def sync_folder(folder: Path) -> None:
    """Make renames in `folder` survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Two commands that write into `folder` go one after the other; where nothing can be written, nobody writes."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        yield
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
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


def seal(content: Mapping[str, Any]) -> str:
    """The SHA-256 of a JSON object, whatever the order of its keys and the spaces between them."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def make_folder(path: Path) -> None:
    """Create a folder, or say in one line why it cannot be."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise NormbenchError(
            f"{path} cannot be made: {error.strerror}. Choose a writable place with --results or NORMBENCH_RESULTS."
        ) from None
