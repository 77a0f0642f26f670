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
    with pytest.raises(NormbenchError, match=r"data.words=3 is too few: .* of data=x take 4 numbers"):
        captions.ranks([["b", "a"]], 3, "x")
    with pytest.raises(NormbenchError, match="features holds NaN or Inf"):
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
        (lambda e: e[0].update(split="dev"), None, "is not Karpathy's dataset_coco.json (KeyError('dev'))"),
        (lambda e: e[0].update(split="test"), None, "it is not Karpathy's split"),
        (lambda e: None, np.zeros((8, 512), np.float32), "needs a row of 4096 for each of the 8 images"),
        (lambda e: None, np.full((8, 4096), np.nan, np.float32), "holds NaN or Inf"),
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
