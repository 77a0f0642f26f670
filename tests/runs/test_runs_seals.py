"""What a run left has a hash: a changed weight shows."""

from __future__ import annotations

import json
from pathlib import Path

import fake
import pytest
import tiny

from normbench.runs import directory
from normbench.runs.run import Run


@pytest.mark.parametrize("key", ["files", "curve_sha256"])
def test_a_missing_hash_is_damage(tmp_path: Path, key: str) -> None:
    path = fake.directory(tmp_path, fake.specs(1)[0])
    content = json.loads((path / "run.json").read_text())
    del content[key]
    (path / "run.json").write_text(json.dumps(content))
    (stored,) = [*map(directory.read, directory.listed(tmp_path))]
    assert stored.status == "damaged" and key in stored.reason


def test_the_status_of_another_run_is_damage(tmp_path: Path) -> None:
    one, other = (fake.directory(tmp_path, spec, status="failed") for spec in fake.specs(2))
    content = (one / "run.json").read_bytes()
    (one / "run.json").write_bytes((other / "run.json").read_bytes())
    (other / "run.json").write_bytes(content)
    reasons = [directory.read(path).reason for path in directory.listed(tmp_path)]
    assert [reason[:25] for reason in reasons] == [
        f"run.json is of run '{path.name[-12:][:5]}" for path in (other, one)
    ]


def test_training_records_the_hash_of_all_that_it_leaves(tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = ("train.keep=[best,last]", "train.checkpoint_seconds=0")
    assert tiny.train(run, *words) == "done"
    status = json.loads((run / "run.json").read_text())
    recorded = Run("", "", "", 1, "done", 0, files=status["files"], path=run)
    assert {"timing.jsonl", "weights/best.safetensors", "weights/last.safetensors"} <= status["files"].keys()
    assert list(directory.differences(recorded)) == []
    content = bytearray((run / "weights" / "best.safetensors").read_bytes())
    content[-1] ^= 1
    (run / "weights" / "best.safetensors").write_bytes(content)
    (run / "weights" / "last.safetensors").unlink()
    (run / "weights" / "step-3.safetensors").write_bytes(content)
    assert dict(directory.differences(recorded)) == {
        "weights/best.safetensors": "it does not have the hash that run.json recorded",
        "weights/last.safetensors": "it is missing",
        "weights/step-3.safetensors": "run.json has no hash of it",
    }
