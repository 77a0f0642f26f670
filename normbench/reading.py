"""Reads untrusted files: regular files only, no links, limited in size; JSON and YAML also in depth."""

from __future__ import annotations

import errno
import math
import os
import re
import stat
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import orjson
import yaml

NO_FILE = "it is no regular file"
DEEPEST = 50  # levels of a value, which other code walks by recursion
MOST = 100_000  # values in a document, with each YAML alias counted in full; characters of a text
HIGHEST = 2**63  # limit of whole numbers, as other programs store them
WIDEST = 1000  # bits of a whole number where HIGHEST does not apply: a larger one is no float
SAFE_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
BRACKETS = 1000  # libyaml's loader recurses without a limit
BLOCK = re.compile(r"[-?:](?:\s|$)")  # what can open a level within a line
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
# What zipfile and numpy raise for a damaged .npy or .npz file.
NO_ARCHIVE = (
    OSError, EOFError, ValueError, TypeError, LookupError, RuntimeError, ArithmeticError, MemoryError, SyntaxError,
    struct.error, tokenize.TokenError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
LONGEST = 1 << 18  # characters of one document: a second or two


def place(given: str | Path) -> Path:
    """The path that a user wrote, also as ~/DIR or file:///DIR."""
    return Path(os.path.expanduser(str(given).removeprefix("file://")))


@contextmanager
def opened(path: str | Path, most: int = 1 << 62, dir_fd: int | None = None) -> Iterator[BinaryIO]:
    """Open a regular file of at most `most` bytes. OSError for anything else: a pipe would block its reader."""
    handle = at_once(path, os.O_RDONLY, dir_fd)
    with open(handle, "rb") as file:
        _check(os.fstat(handle), most)
        yield file


def at_once(path: str | Path, flags: int, dir_fd: int | None = None) -> int:
    """Open without waiting for the other end of a pipe and without following a link."""
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
    """The content of a regular file of at most `most` bytes. OSError for anything else."""
    with open(at_once(path, os.O_RDONLY), "rb", buffering=0) as file:  # faster than `opened`, for thousands of files
        _check(os.fstat(file.fileno()), most)
        return file.read()


def tail(path: str | Path, most: int, dir_fd: int | None = None) -> bytes:
    """The last bytes of a regular file, at most `most`. OSError for anything else."""
    with opened(path, dir_fd=dir_fd) as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - most))
        return file.read(most)


def check_archive(archive: zipfile.ZipFile, most: int) -> None:
    """ValueError if a ZIP file would unpack to more than `most` bytes, or uses another method than deflation.

    With other methods Python unpacks a whole entry, whatever size its header has.
    """
    entries = archive.infolist()
    if other := [entry.compress_type for entry in entries if entry.compress_type not in METHODS]:
        raise ValueError(f"it is packed by method {other[0]}")
    if sum(entry.file_size for entry in entries) > most:
        raise ValueError(f"it unpacks to more than {most >> 20} MiB")


def decode(text: str | bytes) -> Any:
    """A JSON value without NaN, Infinity and lone surrogates, or ValueError. For values whose parts the caller checks.

    All other callers take `parse`.
    """
    return orjson.loads(text)


def parse(text: str | bytes) -> Any:
    """A JSON value that can be walked recursively, printed and stored, or ValueError."""
    text = text.decode() if isinstance(text, bytes) else text
    value = decode(text)
    if len(text) > MOST or text.count("[") + text.count("{") > DEEPEST:
        check_json(value)  # else it is neither deep nor large, and thousands of files are read at once
    return value


def check_json(value: Any, finite: bool = True) -> None:
    """ValueError if a value has types that JSON lacks, is too deep or too large, or has a number that is no float.

    finite: see `load_yaml`.
    """
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
            if not -HIGHEST <= one < HIGHEST and (finite or one.bit_length() > WIDEST):
                raise ValueError("a number in it is too large")
        elif isinstance(one, float):
            if finite and not math.isfinite(one):  # 1e999 is read as infinity
                raise ValueError(f"it has the number {one}")
        elif one is not None:
            raise ValueError(f"it has a {type(one).__name__}: {str(one)[:40]!r} needs quotes")


def load_yaml(text: str, finite: bool = True, loader: Any = SAFE_LOADER) -> Any:
    """The value of one document, as `yaml.safe_load`, restricted to JSON's types and in size.

    finite: refuse NaN, infinity and whole numbers beyond HIGHEST. loader: a class derived from SAFE_LOADER.
    Raises yaml.YAMLError, ValueError, RecursionError.
    """
    if len(text) > LONGEST:
        raise yaml.YAMLError(f"it has more than {LONGEST} characters")
    if (
        max((len(line) - len(line.lstrip(" ")) + len(BLOCK.findall(line)) for line in text.splitlines()), default=0)
        + (text.count("[") + text.count("{"))
        > BRACKETS
    ):
        raise yaml.YAMLError("it may be nested too deeply")
    loading = loader(text)  # libyaml's, where it is installed
    try:
        value = loading.get_single_data()
    finally:
        loading.dispose()
    try:
        check_json(value, finite)
    except ValueError as error:
        raise yaml.YAMLError(str(error)) from None
    return value


def interpolation(value: Any) -> str:
    """The first text in a value that OmegaConf would resolve, such as ${oc.env:KEY}; "" where there is none."""
    if isinstance(value, dict):
        return next(filter(None, map(interpolation, (*value, *value.values()))), "")
    if isinstance(value, list):
        return next(filter(None, map(interpolation, value)), "")
    return value if isinstance(value, str) and "${" in value else ""
