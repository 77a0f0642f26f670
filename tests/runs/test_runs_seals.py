"""What a run left is sealed: a changed status, configuration or weight shows."""

from __future__ import annotations

import json
from pathlib import Path

import fake
import pytest
import tiny

from normbench.runs import files, find, run_file, store


def test_a_shorter_run_is_not_done_because_its_status_says_so(tmp_path: Path) -> None:
    (spec,) = fake.specs(1)
    path = fake.directory(tmp_path / "runs", spec, epochs=1, steps=6)
    assert find.find([spec], tmp_path).state(spec) == "missing", "half as long"
    text = (path / "run.json").read_text()
    changed = text.replace('"epochs": 1', '"epochs": 2').replace('"steps": 6', '"steps": 12')
    assert changed != text
    (path / "run.json").write_text(changed)
    found = find.find([spec], tmp_path)
    assert found.state(spec) == "damaged" and "its content does not have its hash" in found.damaged[0].reason


@pytest.mark.parametrize("key", ["sha256", "files", "curve_sha256"])
def test_a_missing_hash_is_damage(tmp_path: Path, key: str) -> None:
    path = fake.directory(tmp_path, fake.specs(1)[0])
    content = json.loads((path / "run.json").read_text())
    del content[key]
    if key != "sha256":
        content = files.sealed(content)
    (path / "run.json").write_text(json.dumps(content))
    (stored,) = store.scan(tmp_path)
    assert stored.state == "damaged" and (key if key != "sha256" else "does not have its hash") in stored.reason


def test_the_status_of_another_run_is_damage(tmp_path: Path) -> None:
    one, other = (fake.directory(tmp_path, spec, status="failed") for spec in fake.specs(2))
    content = (one / "run.json").read_bytes()
    (one / "run.json").write_bytes((other / "run.json").read_bytes())
    (other / "run.json").write_bytes(content)
    assert [stored.reason[:25] for stored in store.scan(tmp_path)] == ["run.json is of run '" + p.name[-12:][:5]
                                                                       for p in (other, one)]  # fmt: skip


def test_training_seals_all_that_it_leaves(tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = ("train.keep=[best,last]", "train.checkpoint_seconds=0")
    assert tiny.train(run, *words) == "done"
    status = json.loads((run / "run.json").read_text())
    assert files.is_sealed(status) and status["schema"] == run_file.SCHEMA
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
