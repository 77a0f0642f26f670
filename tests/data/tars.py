"""Tar archives made in memory, honest and hostile ones."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Iterable, Mapping


def entry(name: str, body: bytes = b"", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    """A member with these fields (type, linkname, ...)."""
    info = tarfile.TarInfo(name)
    info.size = len(body)
    for key, value in fields.items():
        setattr(info, key, value)
    return info, body


def tar(entries: Iterable[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    """A plain tar archive of the members, in order."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for info, body in entries:
            archive.addfile(info, io.BytesIO(body))
    return out.getvalue()


def packed(files: Mapping[str, bytes]) -> bytes:
    """A .tar.gz of plain files."""
    return gzip.compress(tar(entry(name, body) for name, body in files.items()), mtime=0)
