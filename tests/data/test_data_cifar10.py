"""CIFAR-10 as models read it: parts, scaling, the cache, which copy it is; and (marked `data`) the real set."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.preprocessing import StandardScaler
from tinysets import cifar10, pictures

from normbench import data
from normbench.config import compose
from normbench.data import files


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def config(root: Path) -> dict[str, Any]:
    return cifar10(root)


def expected(part: str = "train") -> np.ndarray:
    """All images of a part, standardized by scikit-learn."""
    made = {name: images.reshape(len(images), -1).astype(np.float64) for name, images in pictures().items()}
    return StandardScaler().fit(made["train"]).transform(made[part]).reshape(-1, 32, 32, 3)


def places(split: data.Split, part: str) -> list[int]:
    """Which images of the set the rows of a split are; each must be one of them."""
    whole = torch.from_numpy(expected(part)).flatten(1)
    distances = torch.cdist(split["inputs"].double().flatten(1), whole)
    assert distances.min(1).values.max() < 1e-3
    return distances.argmin(1).tolist()


# -- parts and scaling


def test_parts_are_drawn_and_do_not_overlap(config: dict[str, Any], root: Path) -> None:
    loaded = data.load(config, root, seed=1)
    assert (loaded.name, loaded.notes) == ("cifar10", ())
    found = {part: places(loaded.splits[part], "test" if part == "test" else "train") for part in loaded.splits}
    assert {part: len(rows) for part, rows in found.items()} == {"train": 40, "valid": 20, "test": 30}
    assert sorted(found["train"] + found["valid"]) == list(range(60)) and sorted(found["test"]) == list(range(30))
    for part, rows in found.items():
        split = loaded.splits[part]
        assert rows != sorted(rows), part
        assert split["inputs"].dtype == torch.float32 and split["targets"].tolist() == [row % 10 for row in rows]


def test_scaling_is_scikit_learns(config: dict[str, Any], root: Path) -> None:
    split = data.load(config, root, seed=1).splits["train"]
    rows = places(split, "train")
    torch.testing.assert_close(split["inputs"], torch.from_numpy(expected()[rows]).float(), rtol=1e-5, atol=1e-5)
    assert not split["inputs"][:, 5, 5, 1].any()


# -- which copy it is


def test_the_official_images_are_known_however_they_are_packed(config: dict[str, Any], root: Path) -> None:
    for kind in ("PNG", "WEBP"):
        again = cifar10(root, kind=kind)
        loaded = data.load(again, root)
        official = files.checksum(again["declares"]["batches"])
        assert loaded.copy == {"sha256": official, "deviations": []} and loaded.notes == ()


def test_approximate_images_are_counted(root: Path) -> None:
    made = pictures()
    for part, place in (("train", 7), ("train", 45), ("test", 7)):
        made[part][place] ^= 1
    config = cifar10(root, made=made, approximate=(7, 45))
    loaded = data.load(config, root)
    line = "CIFAR-10: 3 of the 90 images are approximate (2 train, 1 test)"
    assert loaded.copy["deviations"] == [line] and loaded.notes == (line,)
    assert loaded.copy["sha256"] != files.checksum(config["declares"]["batches"])
    assert data.load(config, root).copy == loaded.copy  # from the cache


def test_images_that_only_claim_to_be_exact(root: Path) -> None:
    made = pictures()
    made["test"] = made["test"][::-1].copy()
    loaded = data.load(cifar10(root, made=made), root)
    assert loaded.copy["deviations"] == [
        "CIFAR-10: the images are not those of the official archive, or in another order"
    ]


def test_another_copy_has_a_cache_of_its_own(config: dict[str, Any], root: Path, cache: Path) -> None:
    data.load(config, root)
    made = pictures()
    made["train"] += 1
    other = data.load(cifar10(root, made=made), root)
    assert other.copy["deviations"] and len(list((cache / "cifar10").iterdir())) == 2


@pytest.mark.data
def test_real_cifar10() -> None:
    config = compose.choice("data", "cifar10")
    loaded = data.load(config | {"fraction": 1.0}, seed=1)
    assert {part: tuple(split["inputs"].shape) for part, split in loaded.splits.items()} == {
        "train": (45000, 32, 32, 3),
        "valid": (5000, 32, 32, 3),
        "test": (10000, 32, 32, 3),
    }
    assert loaded.splits["test"]["targets"].bincount().tolist() == [1000] * 10
    both = torch.cat([loaded.splits["train"]["targets"], loaded.splits["valid"]["targets"]])
    assert both.bincount().tolist() == [5000] * 10
    counted = re.findall(r"\d+", config["declares"]["remark"])
    official = loaded.copy["sha256"] == files.checksum(config["declares"]["batches"])
    assert loaded.copy["deviations"] == (
        []
        if official
        else [f"CIFAR-10: {counted[0]} of the 60000 images are approximate ({counted[2]} train, {counted[3]} test)"]
    )
