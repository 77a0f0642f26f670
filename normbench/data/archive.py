"""Reads tar archives without unpacking them to the disk."""

from __future__ import annotations

import gzip
import tarfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from normbench.data import content, files
from normbench.errors import NormbenchError

# tarfile and gzip raise these for damaged archives.
_DAMAGED = (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error, ValueError, OverflowError)


def members(path: Path, wanted: Callable[[str], object]) -> Iterator[tuple[str, bytes]]:
    """Name and content of the files in a .tar.gz, or .tar, whose name is `wanted`, in the archive's order.

    NormbenchError for a damaged archive.
    """
    try:
        with path.open("rb") as packed:
            file = gzip.GzipFile(fileobj=packed) if packed.peek(2).startswith(content.GZIP) else packed
            with tarfile.open(fileobj=file, mode="r|") as archive:
                for member in archive:
                    if member.isfile() and wanted(member.name):
                        body = archive.extractfile(member)
                        assert body is not None  # a regular file
                        yield member.name, body.read()
            while file.read(files.CHUNK):  # to the end, where the checksum of the whole is
                pass
    except _DAMAGED as error:
        raise NormbenchError(
            f"{files.as_text(path)} is not a whole .tar.gz archive ({error}{files.looks_like(path)}). Bring it anew "
            "as one."
        ) from error
    except OSError as error:
        raise NormbenchError(f"{files.as_text(path)} cannot be read: {error.strerror or error}.") from error
