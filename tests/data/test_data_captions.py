"""Sets of images with captions: Flickr8k's without pictures, MSCOCO with features of the user's own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tinysets
import torch

from normbench import data
from normbench.config import compose
from normbench.data import captions
from normbench.data.words import END, UNKNOWN
from normbench.errors import NormbenchError


def captions_of(ragged: Any, row: int) -> list[list[int]]:
    """The captions of one image, without their ends."""
    numbers = ragged.padded(torch.tensor([row]))[0][0].tolist()
    assert numbers[-1] == END
    ends = [i for i, n in enumerate(numbers) if n == END]
    return [numbers[a:b] for a, b in zip([0, *(e + 1 for e in ends)], ends, strict=False)]


def test_captions_are_split_and_numbered_as_the_code_does() -> None:
    assert captions.split("A t-shirt, two dogs .") == ["a", "tshirt", "two", "dogs"]
    numbers = captions.ranks([["b", "a"], ["a"]], 4, "x")
    assert numbers == {"a": 2, "b": 3} and captions.words_by_number(numbers)[2:] == ["a", "b"]
    assert captions.joined([[[2, UNKNOWN], [3]]]).values.tolist() == [2, UNKNOWN, END, 3, END]
    with pytest.raises(NormbenchError, match=r"data.words=3 is too few: the captions of data=x have 2 words"):
        captions.ranks([["b", "a"]], 3, "x")
    with pytest.raises(NormbenchError, match="features: row 1 holds NaN or Inf"):
        captions.unit_rows(np.array([[1.0], [np.nan]]), "features")


@pytest.mark.data
def test_flickr8k_draws_which_captions_are_the_image() -> None:
    config = compose.choice("data", "flickr8k_captions")
    one, other = (data.load(config, seed=seed) for seed in (1, 2))
    assert {name: len(split) for name, split in one.splits.items()} == {"train": 6000, "valid": 1000, "test": 1000}
    for split in one.splits.values():
        torch.testing.assert_close(split["image"].norm(dim=1), torch.ones(len(split)))
        assert len(captions_of(split["captions"], 0)) == 2
    assert not torch.equal(one.splits["test"]["image"], other.splits["test"]["image"])
    assert int(one.splits["train"]["captions"].values.min()) == END
    assert UNKNOWN not in one.splits["valid"]["captions"].values, "its words have numbers too"
    assert UNKNOWN in one.splits["test"]["captions"].values


@pytest.fixture
def own(tmp_path: Path) -> Callable[..., Any]:
    """A small copy of MSCOCO, and what loading it gives."""
    config = tinysets.coco(tmp_path)
    entries = json.loads((tmp_path / captions.JSON).read_text())["images"]

    def loaded(change: Callable[[list[Any]], None] = lambda entries: None, features: Any = None) -> data.Dataset:
        change(entries)
        (tmp_path / captions.JSON).write_text(json.dumps({"images": entries}))
        if features is not None:
            np.save(tmp_path / captions.FEATURES, features)
        return data.load(config, tmp_path)

    return loaded


def test_coco_is_karpathys_split_with_the_first_five_captions(own: Callable[..., Any]) -> None:
    found = own()
    assert {name: split.index.tolist() for name, split in found.splits.items()} == {
        "train": [0, 1], "valid": [2, 3], "test": [5, 6, 7],
    }  # fmt: skip
    first = captions_of(found.splits["test"]["captions"], 0)
    assert len(first) == 5 and [found.words[n] for n in first[0]] == ["a", "dog", "<unknown>"], "w5 is of a test image"
    assert "w4" not in found.words, "of the validation images the first fold alone is known"
    assert "many" not in found.words
    torch.testing.assert_close(found.splits["train"]["image"].norm(dim=1), torch.ones(2))


@pytest.mark.parametrize(
    ("change", "features", "message"),
    [
        (lambda e: e[3]["sentences"].clear(), None, "all/3.png has 0 captions instead of 5"),
        (lambda e: e[0].update(split="dev"), None, "is not Karpathy's dataset_coco.json (KeyError: 'dev')"),
        (lambda e: [x.update(split="train") for x in e], None, "has 8 images for train instead of 2: it is not Karp"),
        (lambda e: e[0].update(split="test"), None, "has 1 images for train instead of 2"),
        (lambda e: [x.update(split="test") for x in e[2:4]], None, "has 1 images for valid instead of 2"),
        (lambda e: e[0].pop("sentences"), None, "is not Karpathy's dataset_coco.json (KeyError"),
        (
            lambda e: None,
            np.zeros((8, 512), np.float32),
            "no .npy file of 4096 floats an image (it has float32 of shape (8, 512))",
        ),
        (lambda e: None, np.zeros((7, 4096), np.float32), "has 7 rows"),
        (lambda e: None, np.full((8, 4096), np.nan, np.float32), "row 0 holds NaN or Inf"),
    ],
)
def test_what_does_not_fit_is_one_line(
    own: Callable[..., Any], change: Callable[[list[Any]], None], features: Any, message: str
) -> None:
    with pytest.raises(NormbenchError) as caught:
        own(change, features)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_features_of_half_precision_are_of_length_1_too(own: Callable[..., Any]) -> None:
    rows = np.full((8, 4096), 100, np.float16)  # whose squares are beyond that type
    image = own(features=rows).splits["train"]["image"]
    torch.testing.assert_close(image, torch.full((2, 4096), 1 / 64))


HEAD = b"{'descr': '<f4', 'fortran_order': False, 'shape': (8, 4096), }"


@pytest.mark.parametrize(
    ("damage", "file"),
    [
        (lambda body: b"", captions.FEATURES),
        (lambda body: body[:-1], captions.FEATURES),
        (lambda body: body.replace(HEAD, b"(" * len(HEAD)), captions.FEATURES),
        (lambda body: body.replace(b"(8, 4096)", b"(-8,4096)"), captions.FEATURES),
        (lambda body: b"PK\x03\x04" + body, captions.FEATURES),  # numpy would open it as .npz
        (lambda body: body[:-1], captions.JSON),
        (lambda body: b"[" * 100_000, captions.JSON),
    ],
)
def test_damaged_files_are_one_line(
    own: Callable[..., Any], tmp_path: Path, damage: Callable[[bytes], bytes], file: str
) -> None:
    own()
    body = (tmp_path / file).read_bytes()
    (tmp_path / file).write_bytes(damage(body))
    with pytest.raises(NormbenchError, match=rf"{file} is no"):
        data.load(compose.choice("data", "coco"), tmp_path)


def test_a_split_with_a_byte_order_mark(own: Callable[..., Any], tmp_path: Path) -> None:
    own()
    path, found_images = tmp_path / captions.JSON, captions.coco_images(tmp_path, 5)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert captions.coco_images(tmp_path, 5) == found_images
