"""Damaged checkpoints and statuses: the other slot is gone on with, or nothing, and nothing is overwritten."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import tiny
import torch
from safetensors.torch import load, save

from normbench.errors import NormbenchError
from normbench.train import checkpoint

BATCH = ("norm=batch", "norm.also_momenta=[0.01]")
EVERY_STEP = "train.checkpoint_seconds=0"
Calm = Callable[..., tuple[bytes, bytes]]


def rewrite(path: Path, change: Callable[[bytes], bytes]) -> None:
    path.write_bytes(change(path.read_bytes()))


def flip(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


def flip_number(path: Path, key: bytes) -> None:
    """One bit of a number's first digit: the file can still be read, and means something else."""
    rewrite(path, lambda content: flip(content, content.index(b'"%s": ' % key) + len(key) + 4))


def swapped(path: Path, others: dict[str, torch.Tensor]) -> None:
    """Further tensors, with their hash."""
    content = save(load((path.with_suffix(".safetensors")).read_bytes()) | others)
    path.with_suffix(".safetensors").write_bytes(content)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"sha256": hashlib.sha256(content).hexdigest()}))


CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "truncated": lambda content: content[:-10],
    "empty": lambda content: b"",
    "zeroed": lambda content: bytes(len(content)),
}
DAMAGES: dict[str, Callable[[Path], object]] = {
    **{f"head {name}": lambda slot, change=change: rewrite(slot, change) for name, change in CHANGES.items()},
    **{
        f"tensors {name}": lambda slot, change=change: rewrite(slot.with_suffix(".safetensors"), change)
        for name, change in CHANGES.items()
    },
    "a bit of a tensor": lambda slot: rewrite(slot.with_suffix(".safetensors"), lambda c: flip(c, len(c) - 9)),
    "a bit of their header": lambda slot: rewrite(slot.with_suffix(".safetensors"), lambda c: flip(c, 20)),
    "tensors missing": lambda slot: slot.with_suffix(".safetensors").unlink(),
    "head missing": lambda slot: slot.unlink(),
    "a bit of the number of examples": lambda slot: flip_number(slot, b"examples"),
    "a bit of the step": lambda slot: flip_number(slot, b"step"),
    "a bit of the loss sum": lambda slot: flip_number(slot, b"loss_sum"),
    "tensors of another model": lambda slot: swapped(slot, {"model:hidden.weight": torch.zeros(3)}),
    "tensors of another optimizer": lambda slot: swapped(slot, {"optim:hidden:none": torch.zeros(3)}),
}


class Killed(BaseException):
    """Nothing in the loop catches it."""


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run killed at step 8, with checkpoints of steps 7 and 8."""
    folder, stops = tmp_path_factory.mktemp("stopped") / "run", tiny.after(8)

    def kill() -> bool:
        if stops():
            raise Killed
        return False

    with pytest.raises(Killed):
        tiny.train(folder, *BATCH, EVERY_STEP, stopping=kill)
    return folder


def copy(stopped: Path, folder: Path) -> Path:
    shutil.copytree(stopped, folder)
    heads = sorted((folder / "checkpoint").glob("*.json"), key=lambda p: json.loads(p.read_text())["serial"])
    return heads[-1]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_newest_slot_leaves_the_other(damage: str, stopped: Path, tmp_path: Path, calm: Calm) -> None:
    run = tmp_path / "run"
    newest = copy(stopped, run)
    assert json.loads(newest.read_text())["progress"]["step"] == 8
    DAMAGES[damage](newest)
    assert tiny.train(run, *BATCH, EVERY_STEP) == "done"
    assert tiny.result(run) == calm(*BATCH)
    (resumed,) = json.loads((run / "run.json").read_text())["environment"]["resumed"]
    assert resumed["step"] == 7, "the damaged slot was taken for whole"
    assert bool(resumed["notes"]) == (damage != "head missing"), "the damage is noted"


@pytest.mark.parametrize("damage", ["tensors truncated", "a bit of a tensor", "head empty", "a bit of the step"])
def test_both_slots_damaged_overwrites_nothing(damage: str, stopped: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    newest = copy(stopped, run)
    DAMAGES[damage](newest)
    other = next(head for head in newest.parent.glob("*.json") if head != newest) if newest.exists() else newest
    DAMAGES["tensors zeroed"](other)
    before = {path: path.read_bytes() for path in sorted(run.rglob("*")) if path.is_file() and path.name != "lock"}
    with pytest.raises(NormbenchError, match=r"damaged.*Nothing was overwritten") as caught:
        tiny.train(run, *BATCH)
    assert caught.value.code == 4 and "\n" not in str(caught.value)
    assert before == {p: p.read_bytes() for p in sorted(run.rglob("*")) if p.is_file() and p.name != "lock"}


def test_slots_take_turns_and_the_older_is_overwritten(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    for step in range(1, 6):
        checkpoint.save_slot(folder, {"step": step}, {"x": torch.full((3,), float(step))})
        progress, tensors, notes = checkpoint.newest(folder)
        assert progress == {"step": step} and tensors["x"].tolist() == [step] * 3 and notes == []
        assert len(list(folder.iterdir())) == min(step, 2) * 2
    checkpoint.clear(folder)
    assert not folder.exists() and checkpoint.newest(folder) is None


def test_a_damaged_status_is_not_trained_over(tmp_path: Path) -> None:
    run = tmp_path / "run"
    tiny.train(run, stopping=tiny.after(3))
    (run / "run.json").write_text("{")
    with pytest.raises(NormbenchError, match=r"run\.json cannot be read") as caught:
        tiny.train(run)
    assert caught.value.code == 4
