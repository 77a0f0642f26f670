"""Packs: the runs of an artifact or an import in one file of compressed JSON lines.

A header, and of each run two lines: what it is, and its curves as columns. The header has the SHA-256 of all lines
below (`zcat runs.jsonl.gz | tail -n +2 | sha256sum`), and when the runs began (UTC, by id). That is not in their lines,
so that the same runs made again have the same hash.

    {"schema": 5, "sha256": "...", "began": {ID: "2026-01-31T12:00:00Z"}}
    {"arm": "ln", "id": "...", "config": {...}, ...}
    [{"split": "valid", "mode": "eval", "columns": {"step": [...], "nll": [...]}}]
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from types import UnionType
from typing import Any, NamedTuple

import orjson

from normbench.errors import BadInput, Failed, NormbenchError
from normbench.files import reading
from normbench.files.stored import IMPORT, LOGGED, OWN, RUN_GROUPS
from normbench.runs import files, own
from normbench.runs.curve import Curve
from normbench.runs.run import Run, check_columns

SCHEMA = 5
NAME = "runs.jsonl.gz"
GZIP = 16 + zlib.MAX_WBITS  # for zlib: what it reads has gzip's header
LARGEST = 1 << 28  # bytes of a pack, and unpacked: in memory it takes ten times as much
KINDS: dict[str, Any] = {  # the fields of a run's line: what everything else relies on, whoever made the pack
    **dict.fromkeys(("id", "experiment", "arm", "control", "fidelity", "reason", "status", "earlier_id"), str),
    **dict.fromkeys(("seed", "epochs", "steps", "evaluations"), int),
    **dict.fromkeys(("axes", "environment", "config"), dict),
    "seconds": (int, float, type(None)),
}
GROUPS = (*RUN_GROUPS, "train", "eval", "monitor", IMPORT, OWN)  # of a configuration: maps of options
FORM = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS
DAMAGE = (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError, zlib.error)


class Pack(NamedTuple):
    """The runs of a pack and its hash, "" where there is none."""

    sha256: str
    runs: Sequence[Run]


def read(path: Path, wanted: Callable[[str], bool] = lambda run_id: True) -> Pack:
    """A pack whose hash fits, with the runs whose ids are `wanted`; an empty one where there is no file.

    Curves are read when they are used. NormbenchError if it is damaged.
    """
    with _named(path):
        if not path.exists():
            return Pack("", ())
        sha256, began, lines = _opened(path, reading.read(path, LARGEST))
        heads = map(reading.parse, lines[::2])
        pairs = zip(heads, lines[1::2], strict=True)
        return Pack(sha256, [_run(path, head, line, began) for head, line in pairs if wanted(head["id"])])


def unread(path: Path) -> Pack:
    """The same without its runs, of which there may be thousands."""
    with _named(path):
        return Pack(_opened(path, reading.read(path, LARGEST))[0] if path.exists() else "", ())


def whole(path: Path) -> Pack:
    """A pack as of `read`, all curves among it: of a stranger's, or to be sure of it."""
    read_pack = read(path)
    return read_pack._replace(runs=[replace(run, records=run.records.read()) for run in read_pack.runs])


@lru_cache(maxsize=128)  # a command over several artifacts looks into every pack for each of them
def _opened(path: Path, content: bytes) -> tuple[str, Mapping[str, str], list[bytes]]:
    packed = zlib.decompressobj(GZIP)
    text = packed.decompress(content, LARGEST + 1)
    if len(text) > LARGEST:
        raise ValueError(f"unpacked it is larger than {LARGEST >> 20} MiB")
    if not packed.eof or packed.unused_data:
        raise EOFError("its compressed content is cut short, or something follows it")
    first = io.BytesIO(text).readline()
    header = reading.parse(first)
    if (schema := header["schema"]) != SCHEMA:
        error: type[NormbenchError] = Failed
        way_out = ". Restore it (git checkout), or delete it and publish again (normbench reproduce)."
        if isinstance(schema, int) and schema > SCHEMA:
            error, way_out = BadInput, ": update normbench."
        raise error(f"{path} has schema {schema!r:.40}, this version reads {SCHEMA}{way_out}")
    if header["sha256"] != hashlib.sha256(memoryview(text)[len(first) :]).hexdigest():
        raise ValueError("its runs do not have the hash in its header")
    return header["sha256"], header["began"], text.splitlines()[1:]


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """What is wrong with a pack in one line."""
    try:
        yield
    except DAMAGE as error:
        way_out = "Restore it (git checkout), or delete it and publish or import again."
        raise Failed(f"{path} is damaged ({error}). {way_out}") from None


def _run(path: Path, head: dict[str, Any], line: bytes, began: Mapping[str, str]) -> Run:
    _check(head)
    curve = Curve.later(partial(_curve, path, line))
    known = {name: head[name] for name in KINDS}
    return Run(**known, began=str(began.get(head["id"], "")), records=curve, path=path)


def _check(head: Mapping[str, Any]) -> None:
    """TypeError, ValueError where others cannot rely on a run: the hash has no key, so that anybody can pack."""
    for name, kind in KINDS.items():
        _expect(name, head[name], kind)
    for axis, value in head["axes"].items():
        _expect(f"axis {axis}", value, str | int | float | None)
    config = head["config"]
    logged = config.get(IMPORT, {})
    for node, keys, kind in (
        (config, GROUPS, dict), (config.get("model", {}), ("declares",), dict), (logged, ("metrics", "hparams"), dict),
        (logged, ("clocks", "files"), list),
    ):  # fmt: skip
        for key in keys:
            _expect(f"{key} of its configuration", node.get(key, kind()), kind)
    for facts in logged.get("metrics", {}).values():
        _expect("a metric", facts, dict)


def _expect(name: str, value: Any, kind: type | UnionType) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"{name} is {value!r:.40}")


def _curve(path: Path, line: bytes) -> Curve:
    """The records of a run's second line, with the same care."""
    with _named(path):
        curves = reading.decode(line)
        for block in curves:
            check_columns({key: value for key, value in block.items() if key != "columns"}, block["columns"])
        return Curve.of_columns(curves)


def place(run: Run) -> tuple[str | int, ...]:
    """By what the runs of a pack are sorted."""
    return run.control, run.arm, orjson.dumps(dict(run.axes), option=FORM).decode(), run.seed, run.id


def sha256(runs: Iterable[Run]) -> str:
    return hashlib.sha256(_lines(runs)).hexdigest()


def _lines(runs: Iterable[Run]) -> bytes:
    """The same bytes for the same runs."""
    return b"".join(map(_two_lines, sorted(runs, key=place)))


def _two_lines(run: Run) -> bytes:
    blocks = [
        {**block.place, "columns": {key: list(values) for key, values in block.columns.items()}}
        for block in run.records.blocks
    ]
    head = {name: getattr(run, name) for name in KINDS} | {"evaluations": len(run.records)}
    return _encoded(head) + b"\n" + orjson.dumps(blocks) + b"\n"


def _encoded(head: Mapping[str, Any]) -> bytes:
    try:
        return orjson.dumps(head, option=FORM)
    except TypeError:  # a whole number beyond 64 bits, as a log's hparams may have: read again it is a float
        return json.dumps(head, sort_keys=True, separators=(",", ":")).encode()


def dump(runs: Sequence[Run], level: int = 9) -> bytes:
    """The content of a pack. level: of compression. NormbenchError for more than a pack can hold."""
    body = _lines(runs)
    if len(body) > LARGEST:
        raise BadInput(
            f"{len(runs)} runs have {len(body) >> 20} MiB, and a pack has {LARGEST >> 20} at most. Import fewer runs "
            "--as each of several names, or map fewer series."
        )
    began = {run.id: run.began for run in sorted(runs, key=lambda run: run.id) if run.began}
    header = {"schema": SCHEMA, "sha256": hashlib.sha256(body).hexdigest(), "began": began}
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0, filename="", compresslevel=level) as file:
        file.write(orjson.dumps(header) + b"\n" + body)
    return buffer.getvalue()


def write(path: Path, runs: Sequence[Run]) -> None:
    files.make_folder(path.parent)
    files.atomic_write(path, dump(runs))


def merge(published: Iterable[Run], fresh: Iterable[Run]) -> list[Run]:
    """Both together, one per id: n never falls; a longer run takes the place of a shorter one, fresh labels of old.

    Of two of the same length the one with more evaluations stays.
    """
    return longest([*published, *fresh], lambda run: (run.steps, len(run.records)))


def one_each(runs: Sequence[Run]) -> list[Run]:
    """One per id, the longest, with the experiments and arms by which others of these file it."""
    filed: dict[str, dict[tuple[str, str], None]] = {}
    for run in runs:
        filed.setdefault(run.id, {})[run.experiment, run.arm] = None

    def with_others(run: Run) -> Run:
        others = [names for names in filed[run.id] if names != (run.experiment, run.arm)]
        return replace(run, elsewhere=others) if others else run

    return [with_others(run) for run in longest(runs, lambda run: (run.steps, run.evaluations))]


def longest(runs: Iterable[Run], length: Callable[[Run], tuple[int, int]]) -> list[Run]:
    """One per id; of equally long ones (updates, evaluations) the last."""
    merged: dict[str, Run] = {}
    for run in runs:
        old = merged.get(run.id)
        if old is None or length(run) >= length(old):
            merged[run.id] = run
    return list(merged.values())


def paths(results: Path, name: str = NAME) -> list[Path]:
    """The packs, or other files of that name: those below RESULTS/own, then RESULTS/PAPER/ARTIFACT/FIDELITY/NAME.

    A folder whose name begins with a dot is on its way to being something else.
    """
    own_folder = own(results)
    folders = (folder for root in (results, own_folder) for folder in root.glob("*"))
    # of runs there may be thousands
    papers = (folder for folder in folders if folder.name != "runs" and folder != own_folder)
    candidates = (path for paper in papers for path in paper.glob(f"*/*/{name}"))
    visible = (path for path in candidates if "/." not in f"/{path.relative_to(results).as_posix()}")
    return sorted(visible, key=lambda path: (own_folder not in path.parents, path))


def published(results: Path, name: str = NAME) -> list[Path]:
    """Those of `paths` that have verdicts beside them: others are of runs that another program logged."""
    return [path for path in paths(results, name) if path.parent.name != LOGGED]
