"""What the trained models of an artifact drew: `samples.zip`, of each arm what its run with the lowest seed left.

A folder per run, named by its id; the archive's comment is the SHA-256 of all bytes before it. Written once per run:
what is drawn later, for other texts or more digits, stays with the raw run.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from normbench import reading
from normbench.errors import NormbenchError
from normbench.runs.record import RunRecord
from normbench.runs.samples import PAGE, PICTURES, WITHIN

NAME = "samples.zip"
MOST = 1 << 20  # bytes of an artifact's file; where the runs left more, the later arms have none
UNPACKED = 1 << 25
DIGITS = 64
TIME = (1980, 1, 1, 0, 0, 0)  # the earliest that a ZIP file can say: the same samples give the same bytes
_NAME = re.compile(rf"([0-9a-f]{{12}})/([^/\\\0.][^/\\\0]*(?:{'|'.join(map(re.escape, (*PICTURES, PAGE)))}))")
Files = Mapping[str, bytes]


def of_arms(runs: Iterable[RunRecord], *sources: Callable[[str], Files | None]) -> list[tuple[RunRecord, Files]]:
    """Of every arm at its own setting the run with the lowest seed of whose id one of the sources has samples."""
    chosen: dict[tuple[str, str], tuple[RunRecord, Files]] = {}
    for run in sorted(runs, key=lambda run: run.seed):
        place = run.arm, repr(sorted(run.axes.items()))
        if run.control or place in chosen:
            continue
        if files := next(filter(None, (source(run.id) for source in sources)), None):
            chosen[place] = run, files
    return list(chosen.values())


def load(path: Path) -> dict[str, dict[str, bytes]]:
    """Those published at `path`, by run id and name; none without a file. NormbenchError where it is damaged."""
    if not path.exists():
        return {}
    try:
        return _unpacked(reading.read(os.path.realpath(path), MOST))
    except (OSError, EOFError, ValueError, KeyError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise NormbenchError(f"{path} is damaged ({error}). Restore it (git checkout) or delete it.") from None


def dump(found: Mapping[str, Files]) -> bytes | None:
    """The content of samples.zip; None where there is nothing to keep."""
    kept: dict[str, bytes] = {}
    packed = None
    for run, files in found.items():
        more = kept | {f"{run}/{name}": content for name, content in sorted(files.items())}
        if len(content := _packed(more)) > MOST:
            break
        kept, packed = more, content
    return packed


def _packed(files: Files) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, TIME)
            entry.compress_type, entry.create_system, entry.external_attr = zipfile.ZIP_DEFLATED, 3, 0o100644 << 16
            archive.writestr(entry, content)
        archive.comment = bytes(DIGITS)
    before = packed.getvalue()[:-DIGITS]
    return before + _sha256(before)


def _unpacked(content: bytes) -> dict[str, dict[str, bytes]]:
    if content[-DIGITS:] != _sha256(content[:-DIGITS]):
        raise ValueError("it does not have its hash")
    found: dict[str, dict[str, bytes]] = {}
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        entries = archive.infolist()
        if sum(entry.file_size for entry in entries) > UNPACKED:
            raise ValueError(f"it unpacks to more than {UNPACKED >> 20} MiB")
        for entry in entries:
            if not (parts := _NAME.fullmatch(entry.filename)) or entry.file_size > WITHIN:
                raise ValueError(f"{entry.filename[:100]!r} is no sample")
            found.setdefault(parts[1], {})[parts[2]] = archive.read(entry)
    return found


def _sha256(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()
