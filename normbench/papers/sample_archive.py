"""Samples of the trained models of an artifact: `samples.zip` has those of each arm's run with the lowest seed.

A folder per run, named by its id; the archive's comment is the SHA-256 of all bytes before it. Written once per run:
later samples, for other texts or more digits, stay with the raw run.
"""

from __future__ import annotations

import hashlib
import io
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from normbench.errors import BadInput
from normbench.files import reading
from normbench.runs.run import Run
from normbench.runs.samples import WITHIN, can_be_published

NAME = "samples.zip"
MOST = 1 << 20  # bytes of an artifact's file
UNPACKED = 1 << 25
DIGITS = 64
TIME = (1980, 1, 1, 0, 0, 0)  # the earliest that a ZIP file can say: the same samples give the same bytes
_ID = re.compile(r"[0-9a-f]{12}")
Files = Mapping[str, bytes]


@dataclass(frozen=True)
class SampleArchive:
    """Samples by run id and name, and the archive that has them."""

    runs: Mapping[str, Files] = field(default_factory=dict)
    content: bytes = b""

    @property
    def sha256(self) -> str:
        """Of all of the archive before it; "" of none."""
        return self.content[-DIGITS:].decode()


def of_arms(runs: Iterable[Run], *sources: Callable[[str], Files | None]) -> list[tuple[Run, Files]]:
    """Of every arm at its own setting the run with the lowest seed of whose id one of the sources has samples."""
    chosen: dict[tuple[str, str], tuple[Run, Files]] = {}
    for run in sorted(runs, key=lambda run: (run.seed, run.arm, _axes(run), run.id)):
        if run.control or (run.arm, _axes(run)) in chosen:
            continue
        if files := next(filter(None, (source(run.id) for source in sources)), None):
            chosen[run.arm, _axes(run)] = run, files
    return list(chosen.values())


def _axes(run: Run) -> str:
    return repr(sorted(run.axes.items()))


def load(path: Path) -> SampleArchive:
    """The archive at `path`, an empty one without a file. NormbenchError if it is damaged."""
    if not path.exists():
        return SampleArchive()
    try:
        content = reading.read(path, MOST)
        return SampleArchive(_unpacked(content), content)
    except (OSError, EOFError, ValueError, KeyError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise BadInput(f"{path} is damaged ({error}). Restore it (git checkout) or delete it.") from None


def collect(
    runs: Iterable[Run], raw: Callable[[str], Files | None], published: SampleArchive
) -> tuple[SampleArchive, Sequence[Run]]:
    """The `published` samples, updated with those of raw runs; and the runs whose samples no longer fit in.

    Published samples stay, as long as their run does and no lower seed has samples.
    """
    stored = sorted(of_arms(runs, published.runs.get, raw), key=lambda files: files[0].id not in published.runs)
    files_by_run: dict[str, Files] = {}
    left = []
    for run, files in stored:
        if _fits(more := {**files_by_run, run.id: dict(files)}, published):
            files_by_run = more
        else:
            left.append(run)
    # packed anew it may be other bytes, as another zlib's
    return published if files_by_run == published.runs else SampleArchive(files_by_run, _packed(files_by_run)), left


def _fits(runs: Mapping[str, Files], published: SampleArchive) -> bool:
    if runs.keys() <= published.runs.keys():
        return True
    size = sum(len(content) for files in runs.values() for content in files.values())
    return size <= UNPACKED and len(_packed(runs)) <= MOST


def _packed(runs: Mapping[str, Files]) -> bytes:
    if not runs:
        return b""
    files = {f"{run}/{name}": content for run, samples in runs.items() for name, content in samples.items()}
    archived = io.BytesIO()
    with zipfile.ZipFile(archived, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(files.items()):
            entry = zipfile.ZipInfo(name, TIME)
            entry.compress_type, entry.create_system, entry.external_attr = zipfile.ZIP_DEFLATED, 3, 0o100644 << 16
            archive.writestr(entry, content)
        archive.comment = bytes(DIGITS)
    before = archived.getvalue()[:-DIGITS]
    return before + _sha256(before)


def _unpacked(content: bytes) -> dict[str, dict[str, bytes]]:
    if content[-DIGITS:] != _sha256(content[:-DIGITS]):
        raise ValueError("it does not have its hash")
    samples: dict[str, dict[str, bytes]] = {}
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        reading.check_archive(archive, UNPACKED)
        for entry in archive.infolist():
            run, _, name = entry.filename.partition("/")
            if not _ID.fullmatch(run) or not can_be_published(name) or entry.file_size > WITHIN:
                raise ValueError(f"{entry.filename[:100]!r} is no sample")
            samples.setdefault(run, {})[name] = archive.read(entry)
    if not samples:
        raise ValueError("it has no samples")
    return samples


def _sha256(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()
