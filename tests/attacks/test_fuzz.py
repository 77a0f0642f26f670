"""Every reader on whatever hypothesis makes of a file: refused in the one way its callers expect, or as it was."""

from __future__ import annotations

import functools
import hashlib
import io
import json
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import fake
import logged
import pyarrow as pa
import pyarrow.parquet
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from normbench import imports
from normbench.errors import NormbenchError
from normbench.files import reading
from normbench.papers import claims, per_example_effects, published
from normbench.runs import directory, pack
from normbench.runs.directory import Damaged
from normbench.runs.run import Run

FEW, MANY = 40, 1500  # of readers with a hash
OTHERS_FEW, OTHERS_MANY = 10, 250
IMPORTS = Path(__file__).parents[2] / "examples" / "imports"
LOGS = {  # by the name of a file: what a tool wrote
    "base_s1.csv": "keras/base_s1.csv",
    "metrics.csv": "lightning/base-seed1/version_0/metrics.csv",
    "trainer_state.json": "huggingface/out-base-seed1/trainer_state.json",
    "x.tfevents.1": "tensorboard/base_s1/events*",
    "run-a.wandb": "wandb/offline-run-base1/*.wandb",
    "map.yaml": "wandb.yaml",
}
TABLE = {"step": [1, 2, 3], "train/loss": [0.5, 0.25, 0.125], "seed": [1, 1, 1], "note": ["a", "b", "a"]}
CLAIMS = IMPORTS.parent / "own_claims" / "papers" / "mine" / "rms.yaml"


def _tables() -> dict[str, bytes]:
    parquet = io.BytesIO()
    pyarrow.parquet.write_table(pa.table(TABLE), parquet)
    rows = [dict(zip(TABLE, row, strict=True)) for row in zip(*TABLE.values(), strict=True)]
    return {"a.parquet": parquet.getvalue(), "a.jsonl": "".join(json.dumps(row) + "\n" for row in rows).encode()}


@functools.cache
def whole() -> dict[str, bytes]:
    """One file of each kind as it is written."""
    (spec,) = fake.specs(1)
    with tempfile.TemporaryDirectory() as folder:
        path = fake.directory(Path(folder), spec)
        found = {item.name: item.read_bytes() for item in path.iterdir()}
    return found | {
        pack.NAME: pack.dump([fake.record(spec)]),
        "columns.gz": pack.dump([logged.run(points=2)]),
        "verdicts.json": json.dumps({"schema": 3, "artifact": "a/b", "claims": [], "amendments": []}).encode(),
        per_example_effects.NAME: b"",
        **{name: next(IMPORTS.glob(path)).read_bytes() for name, path in LOGS.items()},
        **_tables(),
        "claims.yaml": CLAIMS.read_bytes(),
    }


KNOWN = Run("", "", "", 1, "done", 1)


def _sha256(name: str) -> str:
    return hashlib.sha256(whole()[name]).hexdigest()


READERS: dict[str, Callable[[Path], Any]] = {
    "curve.jsonl": lambda path: directory.curve(replace(KNOWN, path=path, curve_sha256=_sha256("curve.jsonl"))),
    pack.NAME: lambda path: pack.whole(path / pack.NAME),
    "columns.gz": lambda path: pack.whole(path / "columns.gz"),
    "verdicts.json": lambda path: published.read_verdicts(path / "verdicts.json"),
    per_example_effects.NAME: lambda path: per_example_effects.load(path / per_example_effects.NAME),
}
READERS |= {
    name: lambda path, name=name: imports.read([path / name], "x")  # type: ignore[misc]
    for name in (*LOGS, "a.parquet", "a.jsonl")
    if name != "map.yaml"
}
READERS["map.yaml"] = lambda path: imports.read_map(path / "map.yaml")
READERS["claims.yaml"] = lambda path: claims.load(path / "claims.yaml")
# what has a hash of itself, or elsewhere
SEALED = ("curve.jsonl", pack.NAME, "columns.gz")
PUT = [b"[" * 2000, b"{" * 60, b"9" * 400, b"1", b"\0", b"\xff", b"\n", b"\n\n", b"NaN", b"&a *a", b"!!set "]


@st.composite
def damages(draw: st.DrawFn, content: bytes) -> bytes:
    """Bytes of the file changed, cut, doubled, put in; or something else."""
    kind = draw(st.sampled_from(["bytes", "flip", "cut", "twice", "put"]))
    if kind == "bytes" or not content:
        return draw(st.binary(max_size=60))
    at = draw(st.integers(0, len(content) - 1))
    if kind == "flip":
        return content[:at] + bytes([content[at] ^ draw(st.integers(1, 255))]) + content[at + 1 :]
    inside = {"cut": b"", "twice": content, "put": draw(st.sampled_from(PUT)) + content[at:]}
    return content[:at] + inside[kind]


def read(name: str, content: bytes) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / name).write_bytes(content)
        return READERS[name](Path(folder))


def fuzz(name: str, count: int) -> None:
    @given(st.data())
    @settings(max_examples=count, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    def each(data: st.DataObject) -> None:
        try:
            found = read(name, data.draw(damages(whole()[name])))
            assert name not in SEALED or not found or found == read(name, whole()[name]), "a changed file was believed"
        except (Damaged, NormbenchError) as refused:
            assert len(str(refused)) < 1000 and "\n" not in str(refused)

    each()


@pytest.mark.parametrize("name", READERS)
def test_a_reader_takes_a_file_or_refuses_it(name: str) -> None:
    fuzz(name, FEW if name in SEALED else OTHERS_FEW)


@pytest.mark.parametrize("name", SEALED)
def test_the_whole_file_is_taken(name: str) -> None:
    """The tests above would hold for readers that refuse everything."""
    assert read(name, whole()[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_a_reader_takes_thousands_of_files_or_refuses_them(name: str) -> None:
    fuzz(name, MANY if name in SEALED else OTHERS_MANY)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=9))
@settings(max_examples=100, database=None)
def test_yaml_that_is_loaded_is_json(value: Any) -> None:
    try:
        found = reading.load_yaml(yaml.safe_dump(value))
    except (yaml.YAMLError, ValueError):
        return
    json.dumps(found)
