"""Images pixel by pixel: which pixel is at which step, for all images of a seed, and which images are in which part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tinysets
import torch

from normbench import data
from normbench.config import compose
from normbench.errors import NormbenchError


def digits(seed: int = 1, **options: Any) -> torch.Tensor:
    return data.load(compose.choice("data", "sequential_digits") | options, Path(), seed).splits["train"]["inputs"]


def test_the_last_training_images_are_for_validation_row_by_row(tmp_path: Path) -> None:
    images = tinysets.mnist(tmp_path)
    whole = data.load(images, tmp_path).splits
    rows = torch.cat([whole["valid"]["inputs"], whole["train"]["inputs"]])
    config = compose.choice("data", "sequential_mnist")
    sizes = {"train": 50, "valid": 10, "test": 20}
    config |= {"declares": config["declares"] | {"files_of": images, "sizes": sizes}}
    found = data.load(config, tmp_path).splits
    assert torch.equal(found["train"]["inputs"], rows[:50, :, None])
    assert torch.equal(found["valid"]["inputs"], rows[50:, :, None])
    assert found["valid"]["targets"].tolist() == [i % 10 for i in range(50, 60)]
    pooled = data.load(config | {"pool": 2}, tmp_path).splits["test"]["inputs"]
    blocks = whole["test"]["inputs"].view(20, 2, 2, 2, 2)
    torch.testing.assert_close(pooled, blocks.mean((2, 4)).view(20, 4, 1))


def test_one_order_for_all_images_by_the_seed() -> None:
    plain, permuted = digits(), digits(permute=True)
    order = [int((plain == permuted[:, [t]]).all(0).nonzero()[0, 0]) for t in range(64)]
    assert torch.equal(plain[:, order], permuted) and order != sorted(order)
    assert torch.equal(permuted.sort(1).values, plain.sort(1).values)
    assert torch.equal(permuted, digits(permute=True)) and not torch.equal(permuted, digits(2, permute=True))
    assert torch.equal(plain, digits(2))


def test_with_replacement_a_third_of_the_pixels_is_missing() -> None:
    """37 % on average: of 64 pixels 23.4, with a standard deviation of 2.5."""
    plain, missing = digits(), []
    columns = {column.numpy().tobytes() for column in plain.unbind(1)}
    for seed in range(1, 11):
        drawn = digits(seed, permute=True, replacement=True)
        seen = {column.numpy().tobytes() for column in drawn.unbind(1)}
        assert seen <= columns
        missing.append(1 - len(seen) / len(columns))
    assert np.mean(missing) == pytest.approx(np.exp(-1), abs=0.05)


def test_replacement_needs_an_order_that_is_drawn() -> None:
    with pytest.raises(NormbenchError, match=r"needs data\.permute=true") as caught:
        digits(replacement=True)
    assert caught.value.code == 2
