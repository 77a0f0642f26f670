"""Damaged checkpoints and statuses: nothing is gone on with, and nothing is overwritten."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import tiny
import torch

from normbench.errors import NormbenchError
from normbench.runs import checkpoint_file
from normbench.train import checkpoint

WORDS = ("norm=batch", "norm.also_momenta=[0.01]", "train.checkpoint_seconds=0")


def flip(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


def of_another_model(run: Path, **tensors: torch.Tensor) -> None:
    """Further tensors, with their hash."""
    progress, there = checkpoint.read(run) or ({}, {})
    checkpoint.write(run, progress, there | tensors)


def changed(change: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    def damage(run: Path) -> None:
        path = run / checkpoint_file.NAME
        path.write_bytes(change(path.read_bytes()))

    return damage


DAMAGES: dict[str, Callable[[Path], object]] = {
    "truncated": changed(lambda content: content[:-10]),
    "empty": changed(lambda content: b""),
    "zeroed": changed(lambda content: bytes(len(content))),
    "a bit of a tensor": changed(lambda content: flip(content, len(content) - 9)),
    "a bit of the step": changed(lambda content: flip(content, content.index(b'"step": ') + 8)),
    "a bit of the hash": changed(lambda content: flip(content, 3)),
    "tensors of another model": lambda run: of_another_model(run, **{"model:hidden.weight": torch.zeros(3)}),
    "tensors of another optimizer": lambda run: of_another_model(run, **{"optim:hidden:none": torch.zeros(3)}),
}


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was interrupted at step 8."""
    folder = tmp_path_factory.mktemp("stopped") / "run"
    assert tiny.train(folder, *WORDS, stopping=tiny.after(8)) == "interrupted"
    return folder


def contents(run: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(run.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_one_line_and_overwrites_nothing(damage: str, stopped: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(stopped, tmp_path / "run"))
    DAMAGES[damage](run)
    before = contents(run)
    with pytest.raises(NormbenchError, match=r"damaged.*Nothing was overwritten") as caught:
        tiny.train(run, *WORDS)
    assert caught.value.code == 4 and "\n" not in str(caught.value) and contents(run) == before


def test_a_checkpoint_takes_the_place_of_the_last_one(tmp_path: Path) -> None:
    for step in (1, 2):
        checkpoint.write(tmp_path, {"step": step, "lowest": float("inf")}, {"x": torch.full((3,), float(step))})
        progress, tensors = checkpoint.read(tmp_path) or ({}, {})
        assert progress == {"step": step, "lowest": float("inf")} and tensors["x"].tolist() == [step] * 3
        assert [path.name for path in (tmp_path / "checkpoint").iterdir()] == ["state"]
    checkpoint.clear(tmp_path)
    assert not list(tmp_path.iterdir()) and checkpoint.read(tmp_path) is None


def test_a_run_with_the_two_slots_of_before_starts_anew(
    stopped: Path, tmp_path: Path, calm: Callable[..., tuple[bytes, bytes]]
) -> None:
    run = Path(shutil.copytree(stopped, tmp_path / "run"))
    (run / checkpoint_file.NAME).rename(run / "checkpoint" / "a.safetensors")
    (run / "checkpoint" / "a.json").write_text('{"serial": 1}')
    assert tiny.train(run, *WORDS) == "done" and tiny.result(run) == calm(*WORDS)
    assert not (run / "checkpoint").exists()


def test_a_damaged_status_is_not_trained_over(tmp_path: Path) -> None:
    run = tmp_path / "run"
    tiny.train(run, stopping=tiny.after(3))
    (run / "run.json").write_text("{")
    with pytest.raises(NormbenchError, match=r"run\.json cannot be read") as caught:
        tiny.train(run)
    assert caught.value.code == 4
