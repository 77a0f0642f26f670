"""Damaged checkpoints and statuses: the other slot is gone on with, or nothing, and nothing is overwritten."""

from __future__ import annotations

import hashlib
import json
import math
import os
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


def flip(path: Path, place: float) -> None:
    content = bytearray(path.read_bytes())
    content[int(len(content) * place)] ^= 1
    path.write_bytes(content)


def flip_number(path: Path, key: bytes) -> None:
    """One bit of a number's first digit: the file can still be read, and means something else."""
    content = bytearray(path.read_bytes())
    content[content.index(b'"%s": ' % key) + len(key) + 4] ^= 1
    path.write_bytes(content)


def sealed(path: Path, **changes: object) -> None:
    """Another progress, with its hash."""
    head = json.loads(path.read_text())
    head["progress"] |= changes
    path.write_text(json.dumps(head | {"progress_sha256": checkpoint._sha256(head["progress"])}))


def without(path: Path, key: str) -> None:
    path.write_text(json.dumps({name: value for name, value in json.loads(path.read_text()).items() if name != key}))


def swapped(path: Path, others: dict[str, torch.Tensor], change: Callable[..., torch.Tensor] | None = None) -> None:
    """Other tensors, with their hash."""
    mine = load((path.with_suffix(".safetensors")).read_bytes())
    content = save(
        {name: (change or (lambda tensor: tensor))(tensor).contiguous() for name, tensor in mine.items()} | others
    )
    path.with_suffix(".safetensors").write_bytes(content)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"sha256": hashlib.sha256(content).hexdigest()}))


DAMAGES: dict[str, Callable[[Path], object]] = {
    "tensors truncated": lambda slot: slot.with_suffix(".safetensors").write_bytes(
        slot.with_suffix(".safetensors").read_bytes()[:-10]
    ),
    "tensors empty": lambda slot: slot.with_suffix(".safetensors").write_bytes(b""),
    "tensors zeroed": lambda slot: slot.with_suffix(".safetensors").write_bytes(
        bytes(slot.with_suffix(".safetensors").stat().st_size)
    ),
    "a bit of a tensor": lambda slot: flip(slot.with_suffix(".safetensors"), 0.99),
    "a bit of their header": lambda slot: flip(slot.with_suffix(".safetensors"), 0.01),
    "tensors missing": lambda slot: slot.with_suffix(".safetensors").unlink(),
    "head truncated": lambda slot: slot.write_bytes(slot.read_bytes()[:-10]),
    "head empty": lambda slot: slot.write_bytes(b""),
    "head zeroed": lambda slot: slot.write_bytes(bytes(slot.stat().st_size)),
    "head missing": lambda slot: slot.unlink(),
    "head of another shape": lambda slot: slot.write_bytes(b"[1, 2]"),
    "head without progress": lambda slot: slot.write_bytes(
        json.dumps({k: v for k, v in json.loads(slot.read_text()).items() if k != "progress"}).encode()
    ),
    "a bit of the number of examples": lambda slot: flip_number(slot, b"examples"),
    "a bit of the step": lambda slot: flip_number(slot, b"step"),
    "a bit of the loss sum": lambda slot: flip_number(slot, b"loss_sum"),
    "deep head": lambda slot: slot.write_text("[" * 10**5),
    "deep progress": lambda slot: sealed(slot, sums={"nll": eval("[" * 80 + "]" * 80)}),
    "an infinite step": lambda slot: sealed(slot, step=math.inf),
    "a step that is text": lambda slot: sealed(slot, step="8"),
    "a step beyond all": lambda slot: sealed(slot, step=10**400),
    "a further field": lambda slot: sealed(slot, colour="green"),
    "no hash of the tensors": lambda slot: without(slot, "sha256"),
    "no hash of the progress": lambda slot: without(slot, "progress_sha256"),
    "tensors of another model": lambda slot: swapped(slot, {"model:hidden.weight": torch.zeros(3)}),
    "tensors of another optimizer": lambda slot: swapped(slot, {"optim:hidden:none": torch.zeros(3)}),
    "tensors of another shape": lambda slot: swapped(slot, {}, lambda tensor: tensor[..., None]),
    "a pipe as head": lambda slot: (slot.unlink(), os.mkfifo(slot)),
    "a link to zeros as tensors": lambda slot: (
        slot.with_suffix(".safetensors").unlink(), slot.with_suffix(".safetensors").symlink_to("/dev/zero")
    ),
}  # fmt: skip


class Killed(BaseException):
    """Nothing in the loop catches it."""


def half_done(folder: Path) -> None:
    """A run killed at step 8, with checkpoints of steps 7 and 8."""
    left = [8]

    def kill() -> bool:
        left[0] -= 1
        if not left[0]:
            raise Killed
        return False

    with pytest.raises(Killed):
        tiny.train(folder, *BATCH, EVERY_STEP, stopping=kill)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stopped") / "run"
    half_done(folder)
    return folder


def copy(stopped: Path, folder: Path) -> Path:
    import shutil

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
    (resumed,) = json.loads((run / "environment.json").read_text())["resumed"]
    assert resumed["step"] == 7, "the damaged slot was taken for whole"
    assert bool(resumed["notes"]) == (damage != "head missing"), "the damage is noted"


@pytest.mark.parametrize("damage", [d for d in DAMAGES if d not in ("head missing",)])
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
    import torch

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
    (run / "status.json").write_text("{")
    with pytest.raises(NormbenchError, match=r"status\.json is not JSON") as caught:
        tiny.train(run)
    assert caught.value.code == 4
