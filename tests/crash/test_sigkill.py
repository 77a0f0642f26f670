"""SIGKILL at any moment: the same command goes on, and what it ends with is equal to the last byte."""

from __future__ import annotations

import json
from pathlib import Path

import child
import pytest
import tiny

DRIVER = Path(__file__).with_name("driver.py")


def drive(folder: Path, *arguments: str) -> dict[str, list]:
    return json.loads(child.run(str(DRIVER), str(folder), *arguments))


def left_behind(folder: Path) -> list[str]:
    return [str(path) for path in folder.rglob("*") if path.name.endswith(".tmp")]


@pytest.mark.slow
def test_twenty_kills_at_random_moments(tmp_path: Path) -> None:
    report = drive(tmp_path, "random", "7", "20")
    assert report["kills"] >= 10, "the run was over before it could be killed: make it longer"
    assert tiny.result(tmp_path / "killed") == tiny.result(tmp_path / "calm")
    assert left_behind(tmp_path) == []
    status = json.loads((tmp_path / "killed" / "run.json").read_text())
    assert status["status"] == "done" and status["step"] == status["steps"] == 48


@pytest.mark.slow
def test_kills_inside_every_kind_of_write(tmp_path: Path) -> None:
    """Between two renames, after a rename and before its flush, in a temporary file."""
    report = drive(tmp_path, "points", "4")
    assert len(report["runs"]) >= 12
    calm = tiny.result(tmp_path / "calm")
    for name in report["runs"]:
        assert tiny.result(tmp_path / name) == calm, name
        assert json.loads((tmp_path / name / "run.json").read_text())["status"] == "done", name
    assert left_behind(tmp_path) == []
