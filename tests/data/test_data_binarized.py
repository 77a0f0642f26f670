"""Pictures of black and white: the digits drawn here, and the fixed binarization of MNIST from its packed file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from normbench import data
from normbench.config import compose
from normbench.data import content

SIZES = {"train": 5, "valid": 3, "test": 4}
NPZ = "binarized_mnist/binarized_mnist.npz"


@pytest.fixture
def small(tmp_path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """A made-up file below the folder, what declares it, and its bits."""
    draw = np.random.default_rng(0)
    bits = {part: draw.integers(0, 2, (rows, 784)) for part, rows in SIZES.items()}
    config = written(tmp_path, {part: np.packbits(rows, axis=1) for part, rows in bits.items()})
    return config, bits


def written(root: Path, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    path = root / NPZ
    path.parent.mkdir(exist_ok=True)
    np.savez_compressed(path, **arrays)
    config = compose.choice("data", "binarized_mnist")
    declares = {**config["declares"], "sizes": SIZES, "content": {NPZ: content.of(path)}}
    return {**config, "declares": declares}


def test_digits_are_drawn_by_their_grey_values(tmp_path: Path) -> None:
    config = compose.choice("data", "binarized_digits")
    loaded, other = (data.load(config, tmp_path / "absent", seed) for seed in (1, 2))
    assert {part: len(split) for part, split in loaded.splits.items()} == config["declares"]["sizes"]
    for part, split in loaded.splits.items():
        assert split["inputs"].dtype == torch.float32 and set(split["inputs"].unique().tolist()) == {0.0, 1.0}
        assert torch.equal(split["inputs"], other.splits[part]["inputs"]), "the seed has no part in it"
    whole = torch.cat([loaded.splits[part]["inputs"] for part in ("valid", "train", "test")]).double().numpy()
    grey = load_digits().data / 16
    assert (whole[grey == 0] == 0).all() and (whole[grey == 1] == 1).all()
    for least, most in ((0.1, 0.3), (0.3, 0.6), (0.6, 0.9)):
        chosen = (grey > least) & (grey < most)
        assert abs(whole[chosen].mean() - grey[chosen].mean()) < 0.01


def test_mnist_is_what_its_file_packs(small: Any, tmp_path: Path) -> None:
    config, bits = small
    loaded, other = (data.load(config, tmp_path, seed) for seed in (1, 2))
    for part, rows in bits.items():
        assert loaded.splits[part]["inputs"].dtype == torch.float32
        assert (loaded.splits[part]["inputs"].numpy() == rows).all()
        assert torch.equal(loaded.splits[part]["inputs"], other.splits[part]["inputs"])


@pytest.mark.data
def test_the_test_rows_come_sorted_by_digit() -> None:
    """The first thousand are zeros, whose many pixels cost 50 to 70 nats: a part is taken with a stride."""
    split = data.load(compose.choice("data", "binarized_mnist")).splits["test"]
    shares = torch.stack([rows.mean() for rows in split["inputs"].chunk(10)])
    assert shares.max() - shares.min() > 0.05 and shares[0] == shares.max()
    every = split.every(5)
    assert len(every) == 2000 and abs(every["inputs"].mean() - split["inputs"].mean()) < 0.001
