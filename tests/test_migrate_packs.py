"""Packs of the older form brought to today's by scripts/migrate_packs.py."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
from pathlib import Path
from typing import Any

import fake
import pytest

from normbench.runs import pack

SCRIPT = Path(__file__).parent.parent / "scripts" / "migrate_packs.py"


@pytest.fixture(scope="module")
def migrate() -> Any:
    spec = importlib.util.spec_from_file_location("migrate_packs", SCRIPT)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return lambda results: module.main([str(results)])


def old(results: Path, name: str = "fig") -> Path:
    """A pack as it was published before there were hashes."""
    place = results / "paper2020" / name / "paper"
    place.mkdir(parents=True)
    (place / pack.NAME).write_bytes(fake.old_pack([fake.record(spec) for spec in fake.specs(3)]))
    return place / pack.NAME


def test_a_migrated_pack_has_its_runs_and_keeps_its_old_hash(migrate: Any, tmp_path: Path) -> None:
    path = old(tmp_path)
    (path.parent / "verdicts.json").write_text("judged again by whoever reads them")
    before, runs = path.read_bytes(), pack.read(path)
    assert migrate(tmp_path) == 0
    packed = pack.load(path)
    assert list(packed.runs) == runs and packed.schema == pack.SCHEMA
    assert packed.was == {"schema": 1, "sha256": hashlib.sha256(gzip.decompress(before)).hexdigest()}
    assert {p.name for p in path.parent.iterdir()} == {pack.NAME, "verdicts.json"}
    assert (path.parent / "verdicts.json").read_text() == "judged again by whoever reads them"


def test_it_is_deterministic_and_the_second_time_changes_nothing(
    migrate: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, twin = old(tmp_path / "a"), old(tmp_path / "b")
    assert migrate(tmp_path / "a") == migrate(tmp_path / "b") == 0
    first = path.read_bytes(), path.stat().st_mtime_ns
    assert first[0] == twin.read_bytes()
    assert capsys.readouterr().out.startswith(f"{path}: brought up to date\n")
    assert migrate(tmp_path / "a") == 0
    assert (path.read_bytes(), path.stat().st_mtime_ns) == first
    assert capsys.readouterr().out == f"{path}: as it was\n"


def test_damage_is_one_line_and_left_as_it_was(
    migrate: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, whole = old(tmp_path), old(tmp_path, "whole")
    damaged = gzip.compress(b'{"schema": 1}\n', mtime=0)
    path.write_bytes(damaged)
    assert migrate(tmp_path) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "is damaged (line 1: 'records')" in line and path.read_bytes() == damaged
    assert pack.load(whole).schema == pack.SCHEMA, "the others are migrated"
