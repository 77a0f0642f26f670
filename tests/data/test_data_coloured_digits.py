"""The coloured digits: what they are made of, parts, scaling, the declared checksum."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from normbench import data
from normbench.config import compose
from normbench.config.updates import train_size
from normbench.data import coloured_digits
from normbench.errors import NormbenchError


@pytest.fixture
def config() -> dict[str, Any]:
    return compose.choice("data", "coloured_digits")


def test_parts(config: dict[str, Any], tmp_path: Path) -> None:
    data.check(config, tmp_path / "absent")
    loaded = data.load(config, tmp_path / "absent", seed=1)
    assert (loaded.name, loaded.notes) == ("coloured_digits", ())
    assert {part: len(split["targets"]) for part, split in loaded.splits.items()} == config["declares"]["sizes"]
    for split in loaded.splits.values():
        assert split["inputs"].shape[1:] == (32, 32, 3) and split["inputs"].dtype == torch.float32
        assert split["targets"].unique().tolist() == list(range(10))
    train = loaded.splits["train"]["inputs"].double()
    torch.testing.assert_close(train.mean(0), torch.zeros(32, 32, 3).double(), rtol=0, atol=1e-5)
    torch.testing.assert_close(train.std(0, correction=0), torch.ones(32, 32, 3).double(), rtol=1e-5, atol=0)


def test_pictures_of_a_digit_are_in_one_part() -> None:
    digits = [np.arange(1797)[bounds] for bounds in coloured_digits.BOUNDS.values()]
    assert sorted(np.concatenate(digits).tolist()) == list(range(1797))


def test_a_picture_is_its_digit() -> None:
    """Where the noise is small against the contrast, the digit's ink is found again, whole, at one place."""
    pictures, labels = coloured_digits.made()
    digits, targets = load_digits(return_X_y=True)
    assert labels.tolist() == targets.repeat(4).tolist()
    found = 0
    for place in range(0, 400, 7):
        ink = np.kron(digits[place // 4].reshape(8, 8), np.ones((3, 3)))
        picture = pictures[place].astype(float)
        scores = [
            abs(np.corrcoef(ink.ravel(), picture[y : y + 24, x : x + 24, c].ravel())[0, 1])
            for c in range(3)
            for y in range(9)
            for x in range(9)
        ]
        found += max(scores) > 0.8
    assert found > 40  # of 58


def test_the_seed_chooses_a_fraction(config: dict[str, Any]) -> None:
    assert train_size({"data": config | {"fraction": 0.2}}) == 960
    whole, first, other = (
        data.load(config | {"fraction": fraction}, seed=seed).splits
        for fraction, seed in ((1.0, 1), (0.2, 1), (0.2, 2))
    )
    assert [len(first[part]["targets"]) for part in ("train", "valid", "test")] == [960, 158, 1600]
    assert torch.equal(first["train"]["inputs"], whole["train"]["inputs"][:960])
    assert not torch.equal(first["train"]["inputs"], other["train"]["inputs"])
    assert torch.equal(first["test"]["inputs"], other["test"]["inputs"])


def test_refusals(config: dict[str, Any]) -> None:
    with pytest.raises(NormbenchError, match=r"data.fraction=0.0001 leaves no train images"):
        data.load(config | {"fraction": 1e-4})
    other = config | {"declares": config["declares"] | {"sha256": "0" * 64}}
    with pytest.raises(NormbenchError, match=r"sha256 d01f72c9… instead of 00000000…"):
        data.load(other)
