"""Published packs: compressed JSON lines, a header and one line per run with its labels, configuration and records.

The header has the number of runs, the hash of the pack, when the runs began (UTC, by id; of those that know it), and a
seal over itself. The hash of the pack is that of all lines below: `zcat runs.jsonl.gz | tail -n +2 | sha256sum`. A line
has the hash of its curve, that of a raw curve.jsonl. All are SHA-256. When a run began is in the header and not in its
line, so that neither hash depends on it: the same runs made again have the same.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol, TypeVar

from normbench import reading
from normbench.errors import NormbenchError
from normbench.runs import files, own
from normbench.runs.record import BESIDE, RunRecord, check_config, curve_sha256

SCHEMA = 2
FIRST = 2  # the number of the first run's line
NAME = "runs.jsonl.gz"
_ID = re.compile(rb'"id": "([0-9a-f]{12})"')  # of a line: no option has this key
LARGEST = 1 << 30  # bytes of a pack, and unpacked
FIELDS = {field.name for field in fields(RunRecord)} - {*BESIDE, "began"}
KINDS: dict[str, Any] = {  # what everything else relies on
    **dict.fromkeys(("id", "experiment", "arm", "control", "fidelity", "reason", "status"), str),
    **dict.fromkeys(("seed", "epochs", "steps"), int),
    **dict.fromkeys(("axes", "environment", "config", "was"), dict),
    "records": list,
    "seconds": (int, float, type(None)),
}
DAMAGE = (
    OSError, EOFError, ValueError, RecursionError, KeyError, TypeError, AttributeError, OverflowError, zlib.error
)  # fmt: skip


class _Run(Protocol):
    @property
    def id(self) -> str: ...


R = TypeVar("R", bound=_Run)
P = TypeVar("P", bound="Published")


class _Other(Exception):
    """The schema of a pack, an older or a newer one."""


@dataclass(frozen=True)
class Pack:
    """The runs of a pack and their hash, "" where there is no pack."""

    runs: Sequence[RunRecord] = ()
    sha256: str = ""


def sha256(runs: Iterable[RunRecord]) -> str:
    """The hash of a pack of these runs."""
    return hashlib.sha256(_lines(runs)).hexdigest()


def _lines(runs: Iterable[RunRecord]) -> bytes:
    """Sorted by arm, axes and seed, the same bytes for the same runs."""

    def place(run: RunRecord) -> tuple[str | int, ...]:
        return run.control, run.arm, json.dumps(dict(run.axes), sort_keys=True), run.seed, run.id

    contents = (
        {name: getattr(run, name) for name in FIELDS}
        | {"records": list(run.records), "curve_sha256": curve_sha256(run.records)}
        for run in sorted(runs, key=place)
    )
    return b"".join((json.dumps(content, sort_keys=True) + "\n").encode() for content in contents)


def dump(runs: Sequence[RunRecord]) -> bytes:
    """The content of a pack."""
    body = _lines(runs)
    head: dict[str, Any] = {"schema": SCHEMA, "runs": len(runs), "sha256": hashlib.sha256(body).hexdigest()}
    if began := {run.id: run.began for run in sorted(runs, key=lambda run: run.id) if run.began}:
        head["began"] = began
    head["header_sha256"] = files.seal(head)
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0, filename="") as file:
        file.write((json.dumps(head) + "\n").encode() + body)
    return buffer.getvalue()


def write(path: Path, runs: Sequence[RunRecord]) -> None:
    """Write a pack whole."""
    files.make_folder(path.parent)
    files.atomic_write(path, dump(runs))


def read(path: Path) -> list[RunRecord]:
    """The runs of a pack; none where there is no pack. Errors as of `load`."""
    return list(load(path).runs)


def load(path: Path, cached: bool = True, parts: bool = True) -> Pack:
    """A pack, every hash of it checked. A damaged one, or one of another schema: NormbenchError with one line.

    cached: kept in memory for the next call. parts: with its runs, else its hash alone.
    """
    with _named(path):
        if not path.exists():
            return Pack()
        return _parse(_content(path), cached) if parts else Pack((), _opened(_content(path)).sha256)


@dataclass(frozen=True)
class Published:
    """A run of the pack at `path`; `head` is without its records."""

    head: RunRecord
    evaluations: int  # how many records it has
    path: Path

    @property
    def id(self) -> str:
        return self.head.id


@dataclass(frozen=True)
class Packed(Published):
    """One whose records were not looked at: the pack has its hash."""

    number: int  # of its line

    def whole(self) -> RunRecord:
        """The run, checked. Errors as of `load`."""
        with _named(self.path):
            return replace(_opened(_content(self.path)).run(self.number), elsewhere=self.head.elsewhere)


def heads(path: Path, ids: Set[str] | None = None) -> list[Packed]:
    """The runs of a pack, or those with these ids, without their records. Errors as of `load`."""
    if not path.exists():
        return []
    with _named(path):
        content = _content(path)
        found = _heads(content) if ids is None else _read_heads(content, ids)
        return [Packed(head, count, path, number) for head, count, number in found]


def _content(path: Path) -> bytes:
    return reading.read(os.path.realpath(path), LARGEST)  # behind a link as well


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """What is wrong with a pack in one line."""
    try:
        yield
    except _Other as other:
        line = f"{path} has schema {other}, this version reads {SCHEMA}"
        if other.args[0] > SCHEMA:
            raise NormbenchError(f"{line}: update normbench.") from None
        way_out = "Restore it (git checkout), or delete it and publish again (normbench reproduce)."
        raise NormbenchError(f"{line}. {way_out}", code=4) from None
    except DAMAGE as error:
        raise NormbenchError(f"{path} is damaged ({error}). Restore it (git checkout) or delete it.", code=4) from None


@dataclass(frozen=True)
class _Opened:
    """A pack whose own hashes are checked: that of its runs, and their lines."""

    sha256: str
    lines: Sequence[bytes]
    began: Mapping[str, str]  # by the run's id
    runs: dict[int, RunRecord] = field(default_factory=dict)  # by the number of the line

    def run(self, number: int) -> RunRecord:
        """The run of a line, checked once. Raises ValueError, which names the line."""
        if number not in self.runs:
            self.runs[number] = self.dated(_read(self.lines[number - FIRST], number, _run))
        return self.runs[number]

    def dated(self, run: RunRecord) -> RunRecord:
        """The run with what the header says of it."""
        return replace(run, began=self.began.get(run.id, ""))

    @property
    def numbers(self) -> range:
        return range(FIRST, FIRST + len(self.lines))


@lru_cache(maxsize=32)  # a command over several artifacts looks into every pack for each of them
def _opened(content: bytes) -> _Opened:
    """Raises one of DAMAGE, or _Other."""
    with gzip.GzipFile(fileobj=io.BytesIO(content)) as packed:
        text = packed.read(LARGEST + 1)  # gzip takes no bytes at all for an empty file
    if not text:
        raise ValueError("it is empty")
    if len(text) > LARGEST:
        raise ValueError(f"unpacked it is larger than {LARGEST >> 20} MiB")
    first, _, body = text.partition(b"\n")
    head = reading.parse(first)
    schema = head["schema"]
    if type(schema) is int and schema != SCHEMA:
        raise _Other(schema)
    if head.pop("header_sha256", "") != files.seal(head) or schema != SCHEMA:
        raise ValueError("its header was changed")
    count = body.count(b"\n")
    if head["runs"] != count:
        raise ValueError(f"its header says {head['runs']} runs, it has {count}")
    if head["sha256"] != hashlib.sha256(body).hexdigest():
        raise ValueError("its runs do not have the hash in its header")
    began = head.get("began", {})
    if not isinstance(began, dict) or not all(isinstance(when, str) for when in began.values()):
        raise ValueError(f"its header says began={began!r:.40}")
    return _Opened(head["sha256"], body.splitlines(), began)


def _parse(content: bytes, cached: bool) -> Pack:
    """Raises one of DAMAGE, or _Other."""
    opened = (_opened if cached else _opened.__wrapped__)(content)
    return Pack(tuple(map(opened.run, opened.numbers)), opened.sha256)


@lru_cache(maxsize=32)
def _heads(content: bytes) -> list[tuple[RunRecord, int, int]]:
    return _read_heads(content, None)


def _read_heads(content: bytes, ids: Set[str] | None) -> list[tuple[RunRecord, int, int]]:
    """The runs without their records, how many these are, and the line's number. Raises one of DAMAGE, or _Other."""
    opened = _opened(content)
    found = []
    for number, line in zip(opened.numbers, opened.lines, strict=True):
        if ids is not None and (named := _ID.search(line)) and named[1].decode() not in ids:
            continue
        head, records = _cut(line)
        if not records:  # not as `_lines` writes them
            run = opened.run(number)
            found.append((replace(run, records=()), len(run.records), number))
        else:
            found.append((opened.dated(_read(head, number, _head)), records.count(b'"step": '), number))
    return found


def _cut(line: bytes) -> tuple[bytes, bytes]:
    """A line without its records, and these: in a pack that has its hash they stand as `_lines` wrote them."""
    before, start, rest = line.partition(b'"records": [')
    records, end, after = rest.rpartition(b'], "seconds": ')
    return (before + start + end + after, records) if start and end else (line, b"")


def _read(line: bytes, number: int, parse: Callable[[bytes], RunRecord]) -> RunRecord:
    """The run of a line; ValueError names one that is none."""
    try:
        return parse(line)
    except DAMAGE as error:
        raise ValueError(f"line {number}: {error}") from None


def _run(text: bytes) -> RunRecord:
    line = reading.decode(text)
    run = _made(line, text)
    if not run.records:
        raise TypeError("it has no records")
    # as they stand there, or made anew, which takes ten times as long
    if line["curve_sha256"] != _curve_sha256(text) and line["curve_sha256"] != curve_sha256(run.records):
        raise ValueError(f"the records of run {run.id} do not have its curve_sha256")
    return run


def _curve_sha256(line: bytes) -> str:
    """The hash of the records as lines of a curve, of one where none holds what stands between two."""
    _, records = _cut(line)
    return hashlib.sha256(records.replace(b"}, {", b"}\n{") + b"\n").hexdigest()


def _head(text: bytes) -> RunRecord:
    return _made(reading.decode(text), text)


def _made(line: Mapping[str, Any], text: bytes) -> RunRecord:
    """The run, if its parts but for the records have the types that others rely on; else TypeError."""
    run = RunRecord(**{key: value for key, value in line.items() if key in FIELDS})
    for name, kind in KINDS.items():
        value = getattr(run, name)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise TypeError(f"{name} is {value!r:.40}")
    check_config(run.config, "${" if b"${" in text or b"\\" in text else "")
    return run


def merge(published: Iterable[RunRecord], fresh: Iterable[RunRecord]) -> list[RunRecord]:
    """Both together, one per id: n never falls; a longer run takes the place of a shorter one, fresh labels of old.

    Of two of the same length the one with more evaluations stays.
    """
    return longest([*published, *fresh], lambda run: (run.steps, len(run.records)))


def one_each(runs: Sequence[P]) -> list[P]:
    """One per id, the longest, with the experiments and arms by which others of these file it."""
    filed: dict[str, dict[tuple[str, str], None]] = {}
    for run in runs:
        filed.setdefault(run.id, {})[run.head.experiment, run.head.arm] = None

    def with_others(run: P) -> P:
        others = [names for names in filed[run.id] if names != (run.head.experiment, run.head.arm)]
        return replace(run, head=replace(run.head, elsewhere=others))

    return [with_others(run) for run in longest(runs, lambda run: (run.head.steps, run.evaluations))]


def longest(runs: Iterable[R], length: Callable[[R], tuple[int, int]]) -> list[R]:
    """One per id; of equally long ones (updates, evaluations) the last."""
    merged: dict[str, R] = {}
    for run in runs:
        old = merged.get(run.id)
        if old is None or length(run) >= length(old):
            merged[run.id] = run
    return list(merged.values())


def paths(results: Path, name: str = NAME) -> list[Path]:
    """The packs, or other files of that name: those below RESULTS/own, then RESULTS/PAPER/ARTIFACT/FIDELITY/NAME.

    A folder whose name begins with a dot is on its way to being something else.
    """
    mine = own(results)
    folders = (folder for root in (results, mine) for folder in root.glob("*"))
    # of runs there may be thousands
    papers = (folder for folder in folders if folder.name != "runs" and folder != mine)
    found = (path for paper in papers for path in paper.glob(f"*/*/{name}"))
    whole = (p for p in found if not any(part.startswith(".") for part in p.relative_to(results).parts))
    return sorted(whole, key=lambda path: (mine not in path.parents, path))
