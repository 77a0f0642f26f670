"""Packs of the older form brought to today's by scripts/migrate_packs.py, and verdicts sealed to them."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import json
from pathlib import Path
from typing import Any

import fake
import pytest

from normbench.papers import published, verdicts
from normbench.runs import pack

SCRIPT = Path(__file__).parent.parent / "scripts" / "migrate_packs.py"
CLAIM = {
    "id": "C1", "kind": "direction", "statement": "s", "quote": "q", "locator": "l", "endpoint": "e", "verdict": "v",
    "evidence": "n = 3", "n": 3, "unit": "points", "looks": 1, "parts": [], "reported": [], "controls": [],
}  # fmt: skip


@pytest.fixture(scope="module")
def migrate() -> Any:
    spec = importlib.util.spec_from_file_location("migrate_packs", SCRIPT)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return lambda results: module.main([str(results)])


def old(results: Path, name: str = "fig", **changes: Any) -> Path:
    """An artifact as it was published before there were hashes."""
    place = results / "paper2020" / name / "paper"
    place.mkdir(parents=True)
    runs = [fake.record(spec) for spec in fake.specs(3)]
    (place / pack.NAME).write_bytes(fake.old_pack(runs))
    content = {
        "schema": 1, "artifact": f"paper2020/{name}", "fidelity": "paper", "command": "c", "deviations": ["ä"],
        "claims_sha256": "0", "amendments": [], "note": "", "expected_wrong": 0.05,
        "claims": [CLAIM | {"runs": [run.id for run in runs]}],
    }  # fmt: skip
    (place / "verdicts.json").write_bytes(verdicts.as_file(content | changes))
    return place


def contents(place: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in place.iterdir()}


def test_a_migrated_artifact_is_whole_and_keeps_its_old_hash(migrate: Any, tmp_path: Path) -> None:
    place = old(tmp_path)
    before, runs = contents(place), pack.read(place / pack.NAME)
    assert migrate(tmp_path) == 0
    found, packed = published.read(place, tmp_path), pack.load(place / pack.NAME)
    assert list(packed.runs) == runs and packed.schema == pack.SCHEMA
    assert packed.was == {"schema": 1, "sha256": hashlib.sha256(gzip.decompress(before[pack.NAME])).hexdigest()}
    new = dict(found.verdicts)
    assert new.pop("pack_sha256") == packed.sha256 and new.pop("sha256")
    assert new == json.loads(before["verdicts.json"]) | {"schema": 2}
    assert set(contents(place)) == set(before)


def test_it_is_deterministic_and_the_second_time_changes_nothing(
    migrate: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place, twin = old(tmp_path / "a"), old(tmp_path / "b")
    assert migrate(tmp_path / "a") == migrate(tmp_path / "b") == 0
    first = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in place.iterdir()}
    assert contents(place) == contents(twin)
    assert migrate(tmp_path / "a") == 0
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in place.iterdir()} == first
    assert capsys.readouterr().out.endswith(f"{place}: as it was\n")


def test_what_was_cut_short_between_pack_and_verdicts_goes_on(migrate: Any, tmp_path: Path) -> None:
    place, calm = old(tmp_path / "a"), old(tmp_path / "b")
    unsealed = (place / "verdicts.json").read_bytes()
    assert migrate(tmp_path / "a") == migrate(tmp_path / "b") == 0
    (place / "verdicts.json").write_bytes(unsealed)
    assert migrate(tmp_path / "a") == 0 and contents(place) == contents(calm)


@pytest.mark.parametrize(
    "name, content, words",
    [
        (pack.NAME, gzip.compress(b'{"schema": 1}\n', mtime=0), "is damaged (line 1: 'records')"),
        ("verdicts.json", b"[]", "is damaged (it is no JSON object)"),
        ("verdicts.json", b'{"schema": 1}', "are damaged"),
        ("verdicts.json", b'{"schema": 1, "sha256": ""}', "is damaged (it has schema 1)"),
    ],
)
def test_damage_is_one_line_and_left_as_it_was(
    name: str, content: bytes, words: str, migrate: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place, whole = old(tmp_path), old(tmp_path, "whole")
    (place / name).write_bytes(content)
    before = contents(place)
    assert migrate(tmp_path) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line and contents(place) == before
    assert published.read(whole, tmp_path).verdicts["claims"], "the others are migrated"


def test_verdicts_on_runs_that_the_pack_has_not_are_not_sealed(
    migrate: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = old(tmp_path, claims=[CLAIM | {"runs": ["f" * 12]}])
    before = contents(place)
    assert migrate(tmp_path) == 2 and contents(place) == before
    assert f"its run {'f' * 12} is not in the pack" in capsys.readouterr().err
