"""Updates compute without denormal numbers, and come to the same weights and curve."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
import tiny
import torch

from normbench.train import checkpoint, loop
from normbench.train.environment import flushed

LEAST = torch.finfo(torch.float32).tiny
LONG = ("train.batch_size=4", "train.epochs=5")  # 1 500 updates: 0.9 ^ 1 000 is denormal


def has_denormals() -> bool:
    """Whether this thread computes with them."""
    return bool((torch.tensor([LEAST]) * 0.5).item())


def denormal(run: Path) -> int:
    """Denormal numbers in the optimizer's state near the run's end."""
    stored = checkpoint.read(run)
    assert stored
    moments = [value.abs() for name, value in stored[1].items() if name.startswith("optim:")]
    return sum(int(((value > 0) & (value < LEAST)).sum()) for value in moments)


@pytest.fixture
def mode():
    """Processors without the mode keep their denormals; the mode of before comes back."""
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor cannot flush denormal numbers")
    torch.set_flush_denormal(False)
    yield
    torch.set_flush_denormal(False)


def test_inside_alone(mode: None) -> None:
    assert has_denormals()
    with flushed():
        assert not has_denormals()
    assert has_denormals()
    with pytest.raises(ZeroDivisionError), flushed():
        raise ZeroDivisionError
    assert has_denormals()


@pytest.mark.slow
def test_training_leaves_none_and_the_same_bytes(mode: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tiny.train(tmp_path / "flushed", *LONG, stopping=tiny.after(1_499)) == "interrupted"
    assert has_denormals()  # as before
    with monkeypatch.context() as patch:
        patch.setattr(loop.environment, "flushed", contextlib.nullcontext)
        assert tiny.train(tmp_path / "denormal", *LONG, stopping=tiny.after(1_499)) == "interrupted"
    assert denormal(tmp_path / "denormal") > 0  # else this test says nothing
    assert denormal(tmp_path / "flushed") == 0
    for name in ("flushed", "denormal"):
        assert tiny.train(tmp_path / name, *LONG) == "done"
    assert tiny.result(tmp_path / "flushed") == tiny.result(tmp_path / "denormal")
