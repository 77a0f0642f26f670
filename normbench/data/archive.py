"""Reads tar archives without unpacking them to the disk; refuses unsafe ones."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from normbench.data import content, files
from normbench.errors import NormbenchError

# tarfile and gzip raise these for damaged and for forged archives.
_DAMAGED = (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error, ValueError, OverflowError, RecursionError)


@dataclass(frozen=True)
class Limits:
    """Limits of an archive: bytes unpacked, members, bytes unpacked per packed byte, bytes of a member that is read.

    Text and stroke files pack 3 to 15 to 1; a bomb 1000 to 1.
    """

    total: int
    count: int
    ratio: int = 50
    member: int = 64_000_000


def members(path: Path, wanted: Callable[[str], bool], limits: Limits) -> Iterator[tuple[str, bytes]]:
    """Name and content of the files in a .tar.gz, or .tar, whose name is `wanted`, in the archive's order.

    NormbenchError for a damaged archive, a name that leads out of it, a link or device, or more than `limits`.
    """
    try:
        with path.open("rb") as packed:
            unpacked = _Counted(packed, limits)
            archive = tarfile.open(fileobj=unpacked, mode="r|")  # noqa: SIM115 (nothing to close but `packed`)
            for count, member in enumerate(archive, 1):
                if count > limits.count:
                    raise _Refused(f"it has more than {limits.count} members")
                _refuse(member)
                if not member.isfile() or not wanted(member.name):
                    continue
                if member.size > limits.member:
                    raise _Refused(f"{member.name[:200]!r} has {member.size} bytes, more than {limits.member}")
                file = archive.extractfile(member)
                assert file is not None  # a regular file
                body = file.read()
                if len(body) != member.size:
                    raise _Refused(f"it breaks off within {member.name[:200]!r}")
                yield member.name, body
            # To the end, where the checksum of the whole is.
            while unpacked.read():
                pass
    except _Refused as error:
        raise NormbenchError(f"{files.as_text(path)} is refused: {error}. Bring it anew from its owners.") from None
    except _DAMAGED as error:
        raise NormbenchError(
            f"{files.as_text(path)} is not a whole .tar.gz archive ({error}{files.looks_like(path)}). Bring it anew "
            "as one."
        ) from error
    except OSError as error:
        raise NormbenchError(f"{files.as_text(path)} cannot be read: {error.strerror or error}.") from error


class _Refused(Exception):
    """The reason why an archive is not read further."""


class _Counted(io.RawIOBase):
    """The unpacked stream of a file; _Refused if it exceeds the total or the ratio of the limits."""

    # A small file may unpack well: below this, no ratio is refused.
    _FREE = 1 << 22

    def __init__(self, packed: io.BufferedReader, limits: Limits) -> None:
        self._packed, self._limits, self._done = packed, limits, 0
        self._size = os.fstat(packed.fileno()).st_size
        self._file = gzip.GzipFile(fileobj=packed) if packed.peek(2).startswith(content.GZIP) else packed

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        block = self._file.read(files.CHUNK if size < 0 else min(size, files.CHUNK))
        self._done += len(block)
        if self._done > self._limits.total:
            raise _Refused(f"it unpacks to more than {self._limits.total} bytes")
        read = min(self._packed.tell(), self._size)
        if self._done > self._FREE and self._done > self._limits.ratio * max(read, 1):
            raise _Refused(f"it unpacks to more than {self._limits.ratio} times its size")
        return block


def _refuse(member: tarfile.TarInfo) -> None:
    name = PurePosixPath(member.name)
    text = ascii(member.name[:200])
    if name.is_absolute() or ".." in name.parts or "\\" in member.name or "\0" in member.name:
        raise _Refused(f"the name {text} leads out of it")
    if member.issym() or member.islnk():
        raise _Refused(f"{text} is a link")
    if not (member.isfile() or member.isdir()) or member.issparse():
        raise _Refused(f"{text} is neither a plain file nor a folder")
