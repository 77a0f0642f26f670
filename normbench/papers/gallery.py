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
from dataclasses import dataclass, field
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


@dataclass(frozen=True)
class Gallery:
    """Samples by run id and name, and the archive that has them."""

    runs: Mapping[str, Files] = field(default_factory=dict)
    content: bytes = b""

    @property
    def sha256(self) -> str:
        """Of all of the archive before it; "" of none."""
        return self.content[-DIGITS:].decode()


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


def load(path: Path) -> Gallery:
    """What is published at `path`, nothing without a file. NormbenchError where it is damaged."""
    if not path.exists():
        return Gallery()
    try:
        content = reading.read(os.path.realpath(path), MOST)
        return Gallery(_unpacked(content), content)
    except (OSError, EOFError, ValueError, KeyError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise NormbenchError(f"{path} is damaged ({error}). Restore it (git checkout) or delete it.") from None


def kept(found: Iterable[tuple[RunRecord, Files]], known: Gallery) -> Gallery:
    """A gallery of these, the known one where it has just these: packed anew it may be other bytes."""
    runs = {run.id: dict(files) for run, files in found}
    return known if runs == known.runs else packed(runs)


def packed(runs: Mapping[str, Files]) -> Gallery:
    """The first of these runs, as many as there is room for."""
    made, files = Gallery(), dict[str, bytes]()
    for run, own in runs.items():
        files |= {f"{run}/{name}": content for name, content in sorted(own.items())}
        if len(content := _packed(files)) > MOST:
            break
        made = Gallery({**made.runs, run: dict(own)}, content)
    return made


def _packed(files: Files) -> bytes:
    archived = io.BytesIO()
    with zipfile.ZipFile(archived, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, TIME)
            entry.compress_type, entry.create_system, entry.external_attr = zipfile.ZIP_DEFLATED, 3, 0o100644 << 16
            archive.writestr(entry, content)
        archive.comment = bytes(DIGITS)
    before = archived.getvalue()[:-DIGITS]
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
