"""Disks that fail and power cuts at every operation: one line, nothing that was promised is lost, and it goes on."""

from __future__ import annotations

import json
from pathlib import Path

import child
import pytest

DRIVER = Path(__file__).with_name("faults.py")
FAULTS = ("EIO", "ENOSPC", "power")
# of each command and of each fault some; all of them are tried by the slow test
SAMPLE = (
    "train:power:7:67",
    "publish:EIO:2:19",
    "import:power:1:3",
    "import:ENOSPC:2:3",
    "first_import:power:2:3",
    "train:ENOSPC:30:97",
)


def tried(folder: Path, *words: str) -> dict[str, dict]:
    return json.loads(child.run(str(DRIVER), str(folder), *words))


@pytest.mark.slow
def test_a_fault_at_some_operations_of_each_command(tmp_path: Path) -> None:
    for word, found in tried(tmp_path, *SAMPLE).items():
        assert found["wrong"] == [], word
        assert found["ends"].get("77" if "power" in word else "2", 0) >= 1, f"{word}: no fault was met"


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
