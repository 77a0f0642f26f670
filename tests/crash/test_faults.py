"""Disks that fail and power cuts at every operation: one line, nothing that was promised is lost, and it goes on."""

from __future__ import annotations

import json
from pathlib import Path

import child
import pytest

DRIVER = Path(__file__).with_name("faults.py")
FAULTS = ("EIO", "ENOSPC", "power")


def tried(folder: Path, *words: str) -> dict[str, dict]:
    return json.loads(child.run(str(DRIVER), str(folder), *words))


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("command", ["train", "publish", "import", "first_import"])
def test_a_fault_at_every_operation(command: str, fault: str, tmp_path: Path) -> None:
    ((_, found),) = tried(tmp_path, f"{command}:{fault}:1:1").items()
    assert found["wrong"] == [] and sum(found["ends"].values()) >= 9


@pytest.mark.slow
@pytest.mark.parametrize("command", ["train", "publish"])
def test_no_memory_at_some_operations(command: str, tmp_path: Path) -> None:
    ((_, found),) = tried(tmp_path, f"{command}:ENOMEM:2:5").items()
    assert found["wrong"] == []
