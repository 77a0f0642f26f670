"""Commands that write are killed at random instants: the same command ends with the same bytes, and nothing is left."""

from __future__ import annotations

import json
from pathlib import Path

import child
import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "faults" / "kills.py"
COMMANDS = ("publish", "report", "battery")


@pytest.mark.slow
def test_ten_kills_of_every_command() -> None:
    rows = json.loads(child.run(str(SCRIPT), "--kills", "10"))
    assert [row["command"] for row in rows] == list(COMMANDS)
    assert all(row["kills"] >= 10 and row["another end"] == row["left over"] == 0 for row in rows)
