"""Packs: compressed JSON lines, a header and one line per run with its labels, configuration and records.

The header has the number of runs, the hash of the pack, when the runs began (UTC, by id; of those that know it), and a
seal over itself. The hash of the pack is that of all lines below: `zcat runs.jsonl.gz | tail -n +2 | sha256sum`. A line
has the hash of its curve, that of a raw curve.jsonl. All are SHA-256. When a run began is in the header and not in its
line, so that neither hash depends on it: the same runs made again have the same.

A pack of schema 3 has columns instead of records, and is what `normbench.runs.imported` writes:
`"curves": [{"split": "valid", "mode": "logged", "columns": {"step": [...], "loss": [...]}}]`.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Protocol, TypeVar

from normbench import reading
from normbench.errors import BadInput, Failed
from normbench.runs import files, own
from normbench.runs.curve import Curve
from normbench.runs.record import BESIDE, UNLIKE_NUMBERS, RunRecord, check_record, curve_sha256
from normbench.stored import IMPORT, LOGGED, OWN, RUN_GROUPS

SCHEMA, COLUMNS = 2, 3
NAME = "runs.jsonl.gz"
_CURVES = b', "curves": '
_ID = re.compile(rb'"id": "([0-9a-f]{12})"')  # of a line: no option has this key
LARGEST = 1 << 28  # bytes of a pack, and unpacked: in memory it takes ten times as much
FIELDS = {field.name for field in fields(RunRecord)} - {*BESIDE, "began"}
KINDS: dict[str, Any] = {  # what everything else relies on, also in a pack that other hands made
    **dict.fromkeys(("id", "experiment", "arm", "control", "fidelity", "reason", "status"), str),
    **dict.fromkeys(("seed", "epochs", "steps"), int),
    **dict.fromkeys(("axes", "environment", "config", "was"), dict),
    "records": list,
    "seconds": (int, float, type(None)),
}
GROUPS = (*RUN_GROUPS, "train", "eval", "monitor", IMPORT, OWN)  # of a configuration: maps of options
DAMAGE = (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError, zlib.error)


class _Run(Protocol):
    @property
    def id(self) -> str: ...


R = TypeVar("R", bound=_Run)


def sha256(runs: Iterable[RunRecord]) -> str:
    """The hash of a pack of these runs."""
    return hashlib.sha256(_lines(runs)).hexdigest()


def place(run: RunRecord) -> tuple[str | int, ...]:
    """By what the runs of a pack are sorted."""
    return run.control, run.arm, json.dumps(dict(run.axes), sort_keys=True), run.seed, run.id


def _lines(runs: Iterable[RunRecord]) -> bytes:
    """The same bytes for the same runs."""
    contents = (
        {name: getattr(run, name) for name in FIELDS}
        | {"records": list(run.records), "curve_sha256": curve_sha256(run.records)}
        for run in sorted(runs, key=place)
    )
    return b"".join((json.dumps(content, sort_keys=True) + "\n").encode() for content in contents)


def dump(runs: Sequence[RunRecord]) -> bytes:
    """The content of a pack."""
    began = {run.id: run.began for run in sorted(runs, key=lambda run: run.id) if run.began}
    return packed({"schema": SCHEMA, "runs": len(runs)}, _lines(runs), {"began": began} if began else {})


def packed(first: Mapping[str, Any], body: bytes, more: Mapping[str, Any], level: int = 9) -> bytes:
    """A header of what is given and the hash of the lines, and the lines, compressed."""
    head = {**first, "sha256": hashlib.sha256(body).hexdigest(), **more}
    head["header_sha256"] = files.seal(head)
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0, filename="", compresslevel=level) as file:
        file.write((json.dumps(head) + "\n").encode() + body)
    return buffer.getvalue()


def columns(run: RunRecord) -> bytes:
    """The line of a run of schema 3; the id is its first key, the curves, the only part without spaces, its last."""
    import orjson

    blocks = [
        {**block.place, "columns": {key: list(values) for key, values in block.columns.items()}}
        for block in run.records.blocks
    ]
    curves = orjson.dumps(blocks)
    more = {"evaluations": len(run.records), "curve_sha256": hashlib.sha256(curves).hexdigest()}
    content = {name: getattr(run, name) for name in sorted(FIELDS - {"records"})}
    return json.dumps({"id": run.id, **content, **more}).encode()[:-1] + _CURVES + curves + b"}\n"


def write(path: Path, runs: Sequence[RunRecord]) -> None:
    """Write a pack whole."""
    files.make_folder(path.parent)
    files.atomic_write(path, dump(runs))


def read(path: Path) -> list[RunRecord]:
    """The runs of a pack; none where there is no pack. Errors as of `load`."""
    return list(load(path).runs)


def load(path: Path) -> Pack:
    """A pack whose hashes fit; an empty one where there is no file. NormbenchError if it is damaged."""
    with _named(path):
        return _opened(path, reading.read(path, LARGEST) if path.exists() else None)


@dataclass(frozen=True)
class Packed:
    """A run of a pack; `head` is without its records."""

    head: RunRecord
    evaluations: int  # how many records it has
    line: bytes

    @property
    def id(self) -> str:
        return self.head.id

    def whole(self) -> RunRecord:
        """The run with its records. Errors as of `load`."""
        with _named(self.head.path):
            return replace(self.head, records=run_of(self.line).records)


def heads(path: Path, ids: Set[str] | None = None) -> list[Packed]:
    """The runs of a pack, or those with these ids, without their records. Errors as of `load`."""
    opened = load(path)
    with _named(path):
        return opened.heads if ids is None else [opened.head(line) for line in opened.lines if _named_in(line, ids)]


def _named_in(line: bytes, ids: Set[str]) -> bool:
    named = _ID.search(line)
    return named is None or named[1].decode() in ids


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """What is wrong with a pack in one line."""
    try:
        yield
    except DAMAGE as error:
        way_out = "Restore it (git checkout), or delete it and publish or import again."
        raise Failed(f"{path} is damaged ({error}). {way_out}") from None


class Pack:
    """A pack whose hashes fit, so that what it says is what was published; `sha256` is "" where there is none."""

    def __init__(self, path: Path, content: bytes | None) -> None:
        self.path, self.sha256, self.lines = path, "", list[bytes]()
        if content is None:
            return
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as packed:
            text = packed.read(LARGEST + 1)
        if len(text) > LARGEST:
            raise ValueError(f"unpacked it is larger than {LARGEST >> 20} MiB")
        first, _, body = text.partition(b"\n")
        head = reading.parse(first)
        if (schema := head["schema"]) not in (SCHEMA, COLUMNS):
            raise _of_another_schema(path, schema)
        if head.pop("header_sha256", "") != files.seal(head):
            raise ValueError("its header was changed")
        if head["sha256"] != hashlib.sha256(body).hexdigest():
            raise ValueError("its runs do not have the hash in its header")
        self.sha256, self.lines = head["sha256"], body.splitlines()
        self._began: Mapping[str, str] = head.get("began", {})

    @cached_property
    def runs(self) -> Sequence[RunRecord]:
        """Errors as of `load`."""
        with _named(self.path):
            return tuple(map(self._dated, self.lines))

    @cached_property
    def heads(self) -> list[Packed]:
        return [self.head(line) for line in self.lines]

    def head(self, line: bytes) -> Packed:
        """A run without its records: its line has them as `_lines` wrote them, which saves their parse."""
        head, curves, _ = line.rpartition(_CURVES)
        if curves:
            return Packed(self._dated(head + b"}"), reading.decode(head + b"}")["evaluations"], line)
        before, start, rest = line.partition(b'"records": [')
        records, end, after = rest.rpartition(b'], "seconds": ')
        return Packed(self._dated(before + start + end + after), records.count(b'"step": '), line)

    def _dated(self, line: bytes) -> RunRecord:
        run = run_of(line)
        return replace(run, began=self._began.get(run.id, ""), path=self.path)


def run_of(line: bytes) -> RunRecord:
    """The run of a line. TypeError where a key is of another type."""
    content = reading.decode(line)
    found = {key: value for key, value in content.items() if key in FIELDS}
    for name in KINDS.keys() & found.keys():
        if not isinstance(found[name], KINDS[name]):
            raise TypeError(f"{name} is {found[name]!r:.40}")
    _check(found, content.get("curves", ()))
    return RunRecord(**found | ({"records": Curve.of_columns(content["curves"])} if "curves" in content else {}))


def _check(found: Mapping[str, Any], curves: Any) -> None:
    """TypeError, ValueError where others cannot rely on a run: the hash has no key, so that anybody can pack."""
    reading.check([found.get(name) for name in ("axes", "environment", "config", "was")])
    for axis, value in found.get("axes", {}).items():
        if isinstance(value, dict | list):
            raise TypeError(f"axis {axis} is {value!r:.40}")
    config = found.get("config", {})
    logged = config.get(IMPORT, {})
    for node, keys, kind in (
        (config, GROUPS, dict), (config.get("model", {}), ("declares",), dict), (logged, ("metrics", "hparams"), dict),
        (logged, ("clocks", "files"), list),
    ):  # fmt: skip
        for key in keys:
            if key in node and not isinstance(node[key], kind):
                raise TypeError(f"{key} of its configuration is {node[key]!r:.40}")
    for facts in (*logged.get("metrics", {}).values(), {}):
        if not isinstance(facts, dict):
            raise TypeError(f"a metric is {facts!r:.40}")
    for record in found.get("records", ()):
        check_record(record)
    for block in curves:
        if not all(isinstance(block[key], str) for key in ("split", "mode")):
            raise TypeError(f"{block!r:.40} has no split or mode")
        for key, values in block["columns"].items():
            if not all(type(v) in (int, float) or v in UNLIKE_NUMBERS for v in values):
                raise TypeError(f"column {key} has something else than numbers")
        if not {*map(type, block["columns"]["step"])} <= {int}:
            raise TypeError("a step is no whole number")


def _of_another_schema(path: Path, schema: Any) -> Exception:
    line = f"{path} has schema {schema!r:.40}, this version reads {SCHEMA} and {COLUMNS}"
    if isinstance(schema, int) and schema > COLUMNS:
        return BadInput(f"{line}: update normbench.")
    way_out = "Restore it (git checkout), or delete it and publish again (normbench reproduce)."
    return Failed(f"{line}. {way_out}")


_opened = lru_cache(maxsize=32)(Pack)  # a command over several artifacts looks into every pack for each of them


def merge(published: Iterable[RunRecord], fresh: Iterable[RunRecord]) -> list[RunRecord]:
    """Both together, one per id: n never falls; a longer run takes the place of a shorter one, fresh labels of old.

    Of two of the same length the one with more evaluations stays.
    """
    return longest([*published, *fresh], lambda run: (run.steps, len(run.records)))


def one_each(runs: Sequence[Packed]) -> list[Packed]:
    """One per id, the longest, with the experiments and arms by which others of these file it."""
    filed: dict[str, dict[tuple[str, str], None]] = {}
    for run in runs:
        filed.setdefault(run.id, {})[run.head.experiment, run.head.arm] = None

    def with_others(run: Packed) -> Packed:
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


def published(results: Path, name: str = NAME) -> list[Path]:
    """Those of `paths` that have verdicts beside them: others are of runs that another program logged."""
    return [path for path in paths(results, name) if path.parent.name != LOGGED]
