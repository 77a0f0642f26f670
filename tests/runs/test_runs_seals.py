"""What a run left is sealed: a changed status, configuration or weight shows."""

from __future__ import annotations

import json
from pathlib import Path

import fake
import pytest
import tiny

from normbench.runs import find, lookup, seals, store
from normbench.runs.damaged import Damaged


def test_a_shorter_run_is_not_done_because_its_status_says_so(tmp_path: Path) -> None:
    (spec,) = fake.specs(1)
    path = fake.directory(tmp_path / "runs", spec, epochs=1, steps=6)
    assert find.find([spec], tmp_path).state(spec) == "missing", "half as long"
    text = (path / "status.json").read_text()
    changed = text.replace('"epochs": 1', '"epochs": 2').replace('"steps": 6', '"steps": 12')
    assert changed != text
    (path / "status.json").write_text(changed)
    found = find.find([spec], tmp_path)
    assert found.state(spec) == "damaged" and "its seal does not fit its content" in found.damaged[0].reason


@pytest.mark.parametrize("key", ["sha256", "files", "curve_sha256"])
def test_a_missing_hash_is_damage(tmp_path: Path, key: str) -> None:
    path = fake.directory(tmp_path, fake.specs(1)[0])
    content = json.loads((path / "status.json").read_text())
    del content[key]
    if key != "sha256":
        content = seals.sealed(content)
    (path / "status.json").write_text(json.dumps(content))
    (stored,) = lookup.scan(tmp_path)
    assert stored.state == "damaged" and (key if key != "sha256" else "seal is missing") in stored.reason


def test_the_status_of_another_run_is_damage(tmp_path: Path) -> None:
    one, other = (fake.directory(tmp_path, spec, status="failed") for spec in fake.specs(2))
    content = (one / "status.json").read_bytes()
    (one / "status.json").write_bytes((other / "status.json").read_bytes())
    (other / "status.json").write_bytes(content)
    assert [stored.reason[:28] for stored in lookup.scan(tmp_path)] == ["status.json is of run '" + p.name[-12:][:5]
                                                                       for p in (other, one)]  # fmt: skip


@pytest.mark.parametrize("name", ["config.yaml", "environment.json"])
def test_what_is_read_beside_a_curve_is_held_to_its_hash(tmp_path: Path, name: str) -> None:
    path = fake.directory(tmp_path, fake.specs(1)[0])
    (path / name).write_text((path / name).read_text() + "\n")
    (stored,) = lookup.scan(tmp_path)
    with pytest.raises(Damaged, match=f"{name}: it does not have the hash"):
        store.as_filed(stored)


def test_training_seals_all_that_it_leaves(tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = ("train.keep=[best,last]", "train.checkpoint_seconds=0")
    assert tiny.train(run, *words) == "done"
    status = json.loads((run / "status.json").read_text())
    assert seals.fits(status) and status["schema"] == store.SCHEMA
    assert {"config.yaml", "environment.json", "timing.jsonl", "weights/best.safetensors", "weights/last.safetensors"
            } <= status["files"].keys()  # fmt: skip
    assert list(seals.differences(run, status["files"])) == []
    content = bytearray((run / "weights" / "best.safetensors").read_bytes())
    content[-1] ^= 1
    (run / "weights" / "best.safetensors").write_bytes(content)
    (run / "weights" / "last.safetensors").unlink()
    (run / "weights" / "step-3.safetensors").write_bytes(content)
    assert dict(seals.differences(run, status["files"])) == {
        "weights/best.safetensors": "it does not have the hash that status.json recorded",
        "weights/last.safetensors": "it is missing",
        "weights/step-3.safetensors": "status.json has no hash of it",
    }


def test_hashes_name_files_of_the_run_alone() -> None:
    assert seals.are_hashes({"config.yaml": "", "weights/last.safetensors": ""})
    for name in ("../other", "/etc/passwd", "weights/../../x", "weights/.x", "weights/a/b", "lock", "weights/"):
        assert not seals.are_hashes({name: ""}), name
    assert not seals.are_hashes([]) and not seals.are_hashes({"config.yaml": 1}) and not seals.are_hashes(None)


def test_a_picture_has_the_hash_of_itself() -> None:
    whole = seals.marked(b"<svg>1</svg>\n", "a pack")
    assert seals.unmarked(whole, "a pack") == ""
    for image, of in ((whole.replace(b"1<", b"2<"), "a pack"), (whole, "another")):
        assert seals.unmarked(image, of) == "its hash is not that of it and of the pack"
    for bare in (b"", b"<svg>1</svg>\n", whole[:-3], whole + b"x", b"<!-- x -->"):
        assert seals.unmarked(bare, "a pack") == "it has no hash at its end"
