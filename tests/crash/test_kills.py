"""Commands that write are killed at random instants: the same command ends with the same bytes, and nothing is left.

scripts/faults/kills.py does it, sixty times each for what results/faults tells.
"""

from __future__ import annotations

import json
from pathlib import Path

import child
import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "faults" / "kills.py"
COMMANDS = ("publish", "report", "data get", "data get, prepared", "battery", "index and share")


def killed(folder: Path, kills: int, *only: str) -> list[dict]:
    words = [word for name in only for word in ("--only", name)]
    child.ran(str(SCRIPT), "--kills", str(kills), "--output", str(folder), *words)
    return list(json.loads((folder / "kills.json").read_text())["rows"])


@pytest.mark.slow
def test_a_few_kills_of_a_download_that_is_prepared(tmp_path: Path) -> None:
    rows = killed(tmp_path, 4, "data get, prepared")
    assert len(rows) == 1 and all(row["kills"] >= 4 and row["another end"] == row["left over"] == 0 for row in rows)


@pytest.mark.slow
def test_ten_kills_of_every_command(tmp_path: Path) -> None:
    rows = killed(tmp_path, 10)
    assert [row["command"] for row in rows] == list(COMMANDS)
    assert all(row["kills"] >= 10 and row["another end"] == row["left over"] == 0 for row in rows)
