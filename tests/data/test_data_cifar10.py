"""CIFAR-10 as models read it: parts, scaling, the cache, which copy it is, damage; and (marked `data`) the real set."""

from __future__ import annotations

import hashlib
import io
import re
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tinysets
import torch
from PIL import Image
from sklearn.preprocessing import StandardScaler
from tinysets import cifar10, pictures

from normbench import data
from normbench.config import compose
from normbench.data import content


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
        official = content.checksum(again["declares"]["batches"])
        assert loaded.copy == {"sha256": official, "deviations": []} and loaded.notes == ()


def test_approximate_images_are_counted(root: Path) -> None:
    made = pictures()
    for part, place in (("train", 7), ("train", 45), ("test", 7)):
        made[part][place] ^= 1
    config = cifar10(root, made=made, approximate=(7, 45))
    loaded = data.load(config, root)
    line = "CIFAR-10: 3 of the 90 images are approximate (2 train, 1 test)"
    assert loaded.copy["deviations"] == [line] and loaded.notes == (line,)
    assert loaded.copy["sha256"] != content.checksum(config["declares"]["batches"])
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


# -- damage


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (lambda t: t.drop_columns(["img"]), "test-0-of-1.parquet lacks the column img; it has label, exact. "),
        (lambda t: t.slice(0, 20), "CIFAR-10's test files hold 20 images of classes"),
        (lambda t: t.set_column(1, "label", pa.array([3] * 30)), "of classes 3 instead of 30 of classes 0, 1, 2"),
        (lambda t: t.set_column(0, "img", pa.array([{"bytes": b"?"}] * 30)), "test image 0 cannot be decoded"),
        (lambda t: t.set_column(0, "img", pa.array([immense()] * 30)), "test image 0 cannot be decoded: Image size"),
        (
            lambda t: t.set_column(0, "img", pa.array(["?"] * 30)),
            "CIFAR-10's test image 0 cannot be decoded",
        ),
        (lambda t: t.set_column(0, "img", no_bytes()), "CIFAR-10's test image 1 cannot be decoded"),
        (lambda t: t.set_column(0, "img", pa.array([small()] * 30)), "test image 0 is of (8, 8, 3) instead of"),
    ],
)
def test_right_checksum_wrong_content(config: dict[str, Any], root: Path, make: Any, line: str) -> None:
    path = root / "cifar10" / "plain_text" / "test-0-of-1.parquet"
    pq.write_table(make(pq.read_table(path)), path)
    config["declares"]["files"]["cifar10/plain_text/test-0-of-1.parquet"] = hashlib.sha256(
        path.read_bytes()
    ).hexdigest()
    assert line in tinysets.refused(config, root)


def no_bytes() -> pa.Array:
    """Of one image the bytes are left out: the file of that name is not read for it."""
    rows = [{"bytes": small(32)["bytes"], "path": None}] * 30
    return pa.array([rows[0], {"bytes": None, "path": __file__}, *rows[2:]])


def immense() -> dict[str, bytes]:
    """A file of few bytes that says it is of 20 000 x 20 000 pixels."""
    body = small()["bytes"]
    head = b"IHDR" + struct.pack(">II", 20_000, 20_000) + body[24:29]
    return {"bytes": body[:12] + head + struct.pack(">I", zlib.crc32(head)) + body[33:]}


def small(side: int = 8) -> dict[str, bytes]:
    body = io.BytesIO()
    Image.new("RGB", (side, side)).save(body, "PNG")
    return {"bytes": body.getvalue()}


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
    official = loaded.copy["sha256"] == content.checksum(config["declares"]["batches"])
    assert loaded.copy["deviations"] == (
        []
        if official
        else [f"CIFAR-10: {counted[0]} of the 60000 images are approximate ({counted[2]} train, {counted[3]} test)"]
    )
