"""What a run left has a hash: a changed weight shows."""

from __future__ import annotations

import json
from pathlib import Path

import fake
import pytest
import tiny

from normbench.runs import run_file, store


@pytest.mark.parametrize("key", ["files", "curve_sha256"])
def test_a_missing_hash_is_damage(tmp_path: Path, key: str) -> None:
    path = fake.directory(tmp_path, fake.specs(1)[0])
    content = json.loads((path / "run.json").read_text())
    del content[key]
    (path / "run.json").write_text(json.dumps(content))
    (stored,) = store.scan(tmp_path)
    assert stored.state == "damaged" and key in stored.reason


def test_the_status_of_another_run_is_damage(tmp_path: Path) -> None:
    one, other = (fake.directory(tmp_path, spec, status="failed") for spec in fake.specs(2))
    content = (one / "run.json").read_bytes()
    (one / "run.json").write_bytes((other / "run.json").read_bytes())
    (other / "run.json").write_bytes(content)
    assert [stored.reason[:25] for stored in store.scan(tmp_path)] == ["run.json is of run '" + p.name[-12:][:5]
                                                                       for p in (other, one)]  # fmt: skip


def test_training_records_the_hash_of_all_that_it_leaves(tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = ("train.keep=[best,last]", "train.checkpoint_seconds=0")
    assert tiny.train(run, *words) == "done"
    status = json.loads((run / "run.json").read_text())
    assert {"timing.jsonl", "weights/best.safetensors", "weights/last.safetensors"} <= status["files"].keys()
    assert list(run_file.differences(run, status["files"])) == []
    content = bytearray((run / "weights" / "best.safetensors").read_bytes())
    content[-1] ^= 1
    (run / "weights" / "best.safetensors").write_bytes(content)
    (run / "weights" / "last.safetensors").unlink()
    (run / "weights" / "step-3.safetensors").write_bytes(content)
    assert dict(run_file.differences(run, status["files"])) == {
        "weights/best.safetensors": "it does not have the hash that run.json recorded",
        "weights/last.safetensors": "it is missing",
        "weights/step-3.safetensors": "run.json has no hash of it",
    }


def test_a_run_of_before_with_hashes_of_its_parts_is_read(tmp_path: Path) -> None:
    path = fake.directory(tmp_path, fake.specs(1)[0])
    content = json.loads((path / "run.json").read_text())
    old = content | {"sha256": "0" * 64, "config_sha256": "1" * 64, "environment_sha256": "2" * 64}
    (path / "run.json").write_text(json.dumps(old))
    (stored,) = store.scan(tmp_path)
    assert stored.state == "done" and "config_sha256" not in run_file.carried(stored.content)
