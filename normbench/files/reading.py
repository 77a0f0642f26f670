"""Reads untrusted files: regular files only, limited in size; JSON and YAML also in depth and number of values."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import struct
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import Any, BinaryIO

import orjson
import yaml

DEEPEST = 50  # levels of a value, which other code walks by recursion
MOST = 100_000  # values in a document, with each YAML alias counted in full
WIDEST = 1000  # bits of a whole number: a larger one is no float
LONGEST = 1 << 18  # characters of a YAML document: a second or two
LONGEST_NUMBER = 1000  # characters: 1:1:1:... to base 60 takes the square of its length
SAFE_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
TEXT = yaml.resolver.BaseResolver.DEFAULT_SCALAR_TAG
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
# What zipfile and numpy raise for a damaged .npy or .npz file.
NO_ARCHIVE = (
    OSError, EOFError, ValueError, TypeError, LookupError, RuntimeError, ArithmeticError, MemoryError, SyntaxError,
    struct.error, tokenize.TokenError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


def place(given: str | Path) -> Path:
    """The path that a user wrote, also as ~/DIR or file:///DIR."""
    return Path(os.path.expanduser(str(given).removeprefix("file://")))


def opened(path: str | Path, most: int = 1 << 62) -> BinaryIO:
    """Open a regular file of at most `most` bytes. OSError for anything else: a pipe would block its reader."""
    return open(_regular(path, most), "rb")


def read(path: str | Path, most: int) -> bytes:
    """The content of a regular file of at most `most` bytes. OSError for anything else."""
    with open(_regular(path, most), "rb", buffering=0) as file:
        return file.read()


def _regular(path: str | Path, most: int, flags: int = 0) -> int:
    handle = os.open(path, flags | os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    status = os.fstat(handle)
    if stat.S_ISREG(status.st_mode) and status.st_size <= most:
        return handle
    os.close(handle)
    if stat.S_ISREG(status.st_mode):
        raise OSError(errno.EFBIG, f"it is larger than {most >> 20} MiB", str(path))
    raise OSError(errno.EINVAL, "it is no regular file", str(path))


def tail(path: str | Path, most: int) -> bytes:
    """The last bytes of a regular file, at most `most`. OSError for anything else, and for a link."""
    with open(_regular(path, 1 << 62, os.O_NOFOLLOW), "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - most))
        return file.read()[-most:]


def sha256(path: str | Path) -> str:
    """The hash of a regular file. OSError for anything else."""
    with opened(path) as file:
        # typeshed asks for `getbuffer`, which in-memory files alone have
        return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]


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
    """A JSON value without NaN, Infinity and lone surrogates, or ValueError. Its parts are not checked."""
    return orjson.loads(text)


def parse(text: str | bytes) -> Any:
    """A JSON value that can be walked recursively, or ValueError."""
    text = text.decode() if isinstance(text, bytes) else text
    value = decode(text)
    if text.count("[") + text.count("{") > DEEPEST:
        check(value)  # else it is not deep, and thousands of files are read at once
    return value


def check(value: Any) -> None:
    """ValueError if a value is too deep or too large, has types that JSON lacks, or a number that is no float."""
    waiting, count = [(value, 0)], 0
    while waiting:
        node, depth = waiting.pop()
        if (count := count + 1) > MOST:  # a few lines of YAML can stand for millions
            raise ValueError(f"it stands for more than {MOST} values")
        if isinstance(node, dict | list):
            if depth >= DEEPEST:
                raise ValueError("it is nested too deeply")
            waiting += [(inner, depth + 1) for inner in ((*node, *node.values()) if isinstance(node, dict) else node)]
        elif isinstance(node, int) and node.bit_length() > WIDEST:
            raise ValueError("a number in it is too large")
        elif isinstance(node, str):
            node.encode()  # half a pair of surrogates, as "\\ud83d" is, cannot be written
        elif not isinstance(node, int | float | None):
            raise ValueError(f"it has a {type(node).__name__}: {str(node)[:40]!r} needs quotes")


class Loader(SAFE_LOADER):  # type: ignore[misc, valid-type]
    """yaml.safe_load's, by libyaml where it is installed; `<<` is refused: a few lines of it can stand for millions."""

    def construct_scalar(self, node: yaml.ScalarNode) -> Any:
        if node.tag != TEXT and len(node.value) > LONGEST_NUMBER:
            raise yaml.YAMLError(f"a number in it has more than {LONGEST_NUMBER} characters")
        return super().construct_scalar(node)

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        if any(key.tag == "tag:yaml.org,2002:merge" for key, _ in node.value):
            raise yaml.YAMLError("it merges keys by <<, which is not read: write them out")
        super().flatten_mapping(node)


def load_yaml(text: str, loader: type[Loader] = Loader) -> Any:
    """The value of one document, as `yaml.safe_load`, restricted to JSON's types and in size. Raises yaml.YAMLError."""
    if len(text) > LONGEST:
        raise yaml.YAMLError(f"it has more than {LONGEST} characters")
    try:
        _check_depth(text, loader)
        loading = loader(text)
        try:
            value = loading.get_single_data()
        finally:
            loading.dispose()
        check(value)
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        # beside `check`'s PyYAML's own, on values that do not fit their tags: !!int "", !!timestamp x, 1:1.5e999
        raise yaml.YAMLError(str(error)) from None
    return value


def _check_depth(text: str, loader: type[Loader]) -> None:
    """Before anything is loaded: libyaml's loader recurses without a limit."""
    depth = 0
    for event in yaml.parse(text, loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise yaml.YAMLError("it is nested too deeply")


def interpolation(value: Any) -> str:
    """The first text in a value that OmegaConf would resolve, such as ${oc.env:KEY}; "" where there is none."""
    if isinstance(value, dict):
        return next(filter(None, map(interpolation, (*value, *value.values()))), "")
    if isinstance(value, list):
        return next(filter(None, map(interpolation, value)), "")
    return value if isinstance(value, str) and "${" in value else ""


Stamp = tuple[int, int, int]  # inode, time of change in ns, size


def stamp(path: str | Path) -> Stamp | None:
    """What shows that a file changed, without reading it. None where there is no file."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
