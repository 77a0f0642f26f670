"""Whatever is damaged at random, in the published results or in raw runs, is named, and no other run is.

scripts/faults/damage.py does it, five hundred times for what results/faults tells.
"""

from __future__ import annotations

import json
from pathlib import Path

import child
import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "faults" / "damage.py"
TIMES = 24  # four of each kind


@pytest.mark.slow
def test_damages_at_random_are_named(tmp_path: Path) -> None:
    child.run(str(SCRIPT), "--damages", str(TIMES), "--seed", "2", "--output", str(tmp_path))
    rows = json.loads((tmp_path / "damage.json").read_text())["rows"]
    assert sum(row["times"] for row in rows) == TIMES == sum(row["named"] for row in rows)
    assert all(row["others named"] == row["others not read"] == 0 for row in rows)
