"""Every reader on whatever hypothesis makes of a file: it is read, or refused in the one way its callers expect."""

from __future__ import annotations

import contextlib
import functools
import gzip
import hashlib
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fake
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from normbench import reading
from normbench.errors import NormbenchError
from normbench.papers import history, measured, per_example_effects, published
from normbench.runs import curve_file, files, outcomes, pack, run_file
from normbench.runs.damaged import Damaged
from normbench.runs.record import RunRecord, check_record
from normbench.train import checkpoint

FEW, MANY = 40, 1500
numbers = st.one_of(
    st.integers(), st.floats(), st.sampled_from([10**400, -(2**63), 2**53, 1e308, -0.0, 5e-324, float("inf")])
)
texts = st.one_of(
    st.text(max_size=9), st.sampled_from(["NaN", "Infinity", "\ud800", "\x1b[31m", "${oc.env:HOME}", "7"])
)
leaves = st.one_of(st.none(), st.booleans(), numbers, texts)
values = st.recursive(
    leaves,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=9,
)


@functools.cache
def whole() -> dict[str, bytes]:
    """One file of each kind as it is written."""
    (spec,) = fake.specs(1)
    with tempfile.TemporaryDirectory() as folder:
        path = fake.directory(Path(folder), spec)
        found = {item.name: item.read_bytes() for item in path.iterdir()}
    head = {"serial": 1, "sha256": "", "progress": {"schema": 2, "step": 3, "lowest": {"": 0.5}}, "progress_sha256": ""}
    entry = {"date": "2026-01-01", "artifact": "a/b", "fidelity": "paper", "claim": "A-1", "before": None}
    entry |= {"after": {"verdict": "reproduced", "n": 3}, "cause": ["runs"]}
    return found | {
        pack.NAME: gzip.decompress(pack.dump([fake.record(spec)])),
        "a.json": json.dumps(head).encode(),
        history.NAME: files.line(files.sealed(entry)),
        "verdicts.json": json.dumps({"schema": 3, "artifact": "a/b", "claims": [], "amendments": []}).encode(),
        "one.json": json.dumps({"title": "t", "command": "c", "machine": "m", "rows": []}).encode(),
        per_example_effects.NAME: b"",
        "best.npz": b"",
    }


def _status(path: Path) -> None:
    status = run_file.read(path)
    assert 0 <= status.get("steps", 0) < 2**53 and isinstance(status.get("reason", ""), str)
    assert "${" not in json.dumps(status.get("config", {}), allow_nan=False)


def _curve(path: Path) -> None:
    for record in curve_file.read(path / "curve.jsonl"):
        check_record(record)
        files.line(record)


def _pack(path: Path) -> None:
    content = (path / pack.NAME).read_bytes()  # as it unpacks; each line with the hash of the lines above it
    _, _, body = content.partition(b"\n")
    (path / pack.NAME).write_bytes(gzip.compress(content))
    _read_pack(path)
    head: dict[str, Any] = {"schema": 2, "runs": body.count(b"\n"), "sha256": hashlib.sha256(body).hexdigest()}
    sealed = json.dumps(head | {"header_sha256": files.seal(head)}).encode() + b"\n" + body
    (path / pack.NAME).write_bytes(gzip.compress(sealed))
    _read_pack(path)


def _read_pack(path: Path) -> None:
    try:
        runs = pack.load(path / pack.NAME, cached=False).runs
    except NormbenchError:
        return
    assert all(isinstance(run, RunRecord) and run.records for run in runs)


def _checkpoint(path: Path) -> None:
    with contextlib.suppress(OSError, ValueError):
        checkpoint._head(path / "a.json")


def _history(path: Path) -> None:
    """Each line with the seal of what it has become."""
    lines = (path / history.NAME).read_bytes().splitlines()
    for number, line in enumerate(lines):
        with contextlib.suppress(ValueError, RecursionError, AttributeError):
            lines[number] = json.dumps(files.sealed(reading.parse(line))).encode()
    (path / history.NAME).write_bytes(b"\n".join(lines) + b"\n")
    history.read(path)


READERS: dict[str, Callable[[Path], object]] = {
    "run.json": _status,
    "curve.jsonl": _curve,
    pack.NAME: _pack,
    "a.json": _checkpoint,
    history.NAME: _history,
    "verdicts.json": lambda path: published.read_verdicts(path / "verdicts.json"),
    "one.json": lambda path: list(measured._read(path, measured._bench)),
    per_example_effects.NAME: lambda path: per_example_effects.load(path / per_example_effects.NAME),
    "best.npz": lambda path: outcomes.read(path / "best.npz", "test", [""], "nll"),
}


@st.composite
def damages(draw: st.DrawFn, content: bytes) -> bytes:
    """Bytes of the file changed, cut, doubled; or a value of it, if it is JSON or YAML; or something else."""
    kind = draw(st.sampled_from(["bytes", "flip", "cut", "twice", "value", "value", "value", "put"]))
    if kind == "bytes" or not content:
        return draw(st.binary(max_size=60))
    place = draw(st.integers(0, len(content) - 1))
    if kind == "flip":
        return content[:place] + bytes([content[place] ^ draw(st.integers(1, 255))]) + content[place + 1 :]
    if kind == "cut":
        return content[:place]
    if kind == "twice":
        return content[:place] + content
    if kind == "put":
        put = draw(st.sampled_from([b"[" * 2000, b"{" * 60, b"9" * 400, b"\0", b"\xff", b"\n", b"&a *a", b"!!set "]))
        return content[:place] + put + content[place:]
    return _with_value(draw, content)


def _with_value(draw: st.DrawFn, content: bytes) -> bytes:
    """One value somewhere in it is another."""
    of_yaml = content[:1] not in b"[{"
    lines = [content] if of_yaml else content.splitlines() if content.count(b"\n{") else [content]
    at = draw(st.integers(0, len(lines) - 1))
    tree = yaml.safe_load(lines[at]) if of_yaml else json.loads(lines[at])
    node = tree
    while isinstance(node, dict | list) and node:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        key = draw(st.sampled_from(keys))
        if not isinstance(node[key], dict | list) or not node[key] or draw(st.booleans()):
            node[key] = draw(values)
            break
        node = node[key]
    lines[at] = (yaml.safe_dump(tree) if of_yaml else json.dumps(tree)).encode("utf-8", "surrogatepass")
    return b"\n".join(lines) + b"\n"


def try_one(name: str, content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / name).write_bytes(content)
        try:
            READERS[name](Path(folder))
        except (Damaged, NormbenchError) as refused:
            assert len(str(refused)) < 1000 and "\n" not in str(refused)


def fuzz(name: str, count: int) -> None:
    @given(st.data())
    @settings(max_examples=count, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    def each(data: st.DataObject) -> None:
        try_one(name, data.draw(damages(whole()[name])))

    each()


@pytest.mark.parametrize("name", READERS)
def test_a_reader_takes_a_file_or_refuses_it(name: str) -> None:
    fuzz(name, FEW)


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_a_reader_takes_thousands_of_files_or_refuses_them(name: str) -> None:
    fuzz(name, MANY)


@pytest.mark.parametrize(
    "name", [name for name in READERS if name not in (per_example_effects.NAME, "best.npz", "verdicts.json")]
)
def test_the_whole_file_is_taken(name: str) -> None:
    """The tests above would hold for readers that refuse everything."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / name).write_bytes(whole()[name])
        READERS[name](Path(folder))


@given(values)
@settings(max_examples=300, deadline=None, database=None)
def test_what_is_parsed_can_be_written_again(value: Any) -> None:
    try:
        found = reading.parse(json.dumps(value))
    except ValueError:
        return
    assert reading.parse(json.dumps(found, allow_nan=False).encode()) == found


@given(values)
@settings(max_examples=100, deadline=None, database=None)
def test_yaml_that_is_loaded_is_json(value: Any) -> None:
    try:
        found = reading.load_yaml(yaml.safe_dump(value))
    except (yaml.YAMLError, ValueError):
        return
    json.dumps(found, allow_nan=False, ensure_ascii=False).encode()
