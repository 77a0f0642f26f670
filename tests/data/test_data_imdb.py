"""IMDB as models read it: Keras' splitting, ranks and padding, parts, the cache; and (marked `data`) itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import tinysets
import torch
from tinysets import TRAIN

from normbench import data
from normbench.config import compose
from normbench.data import imdb
from normbench.data.words import ranks
from normbench.errors import NormbenchError

# by hand: the 4, bad 4, film 3, so 3, it's 2, then best, br, great, worst in the order of their appearance
RANKS = {"the": 1, "bad": 2, "film": 3, "so": 4, "it's": 5, "best": 6, "br": 7, "great": 8, "worst": 9}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def config(root: Path) -> dict[str, Any]:
    return tinysets.imdb(root)


# -- as Keras


def test_a_text_is_split_as_by_keras_tokenizer() -> None:
    assert imdb.split(TRAIN[0]) == ["the", "film", "the", "film", "the", "best", "br", "it's", "great"]
    assert imdb.split('(a_b) "c"-d/e\n\tf #1') == ["a", "b", "c", "d", "e", "f", "1"]
    assert imdb.split("one\x85two\xa0three") == ["one\x85two\xa0three"]  # no blanks for it
    assert imdb.split("...") == []


def test_ranks_go_by_frequency_then_appearance() -> None:
    assert ranks(map(imdb.split, TRAIN), 1) == RANKS


def test_numbers_are_those_of_load_data_and_pad_sequences() -> None:
    encoded = imdb.encode(["the", "great", "worst", "unseen", "bad"], RANKS, 12, 8)
    assert encoded.tolist() == [0, 0, 0, 1, 4, 11, 2, 5] and encoded.dtype == np.int32
    assert imdb.encode(["the"] * 5, RANKS, 12, 6).tolist() == [1, 4, 4, 4, 4, 4]
    assert imdb.encode(["bad", *["the"] * 6], RANKS, 12, 6).tolist() == [4] * 6  # the start falls off
    assert imdb.encode([], RANKS, 12, 3).tolist() == [0, 0, 1]


# -- parts


def test_parts_and_what_is_in_them(config: dict[str, Any], root: Path) -> None:
    loaded = data.load(config, root, seed=1)
    assert (loaded.name, loaded.notes) == ("imdb", ())
    assert loaded.copy["deviations"] == list(imdb.DEVIATIONS)
    assert {part: tuple(split["inputs"].shape) for part, split in loaded.splits.items()} == {
        "train": (3, 6),
        "valid": (1, 6),
        "test": (2, 6),
    }
    assert all(split["inputs"].dtype == split["targets"].dtype == torch.int64 for split in loaded.splits.values())
    both = [row for part in ("train", "valid") for row in numbered(loaded.splits[part])]
    wanted = [imdb.encode(imdb.split(text), RANKS, 12, 6).tolist() for text in TRAIN]
    assert sorted(both) == sorted(zip(wanted, [0, 0, 1, 1], strict=True))
    test = [([0, 0, 0, 1, 9, 6], 0), ([0, 0, 1, 2, 4, 2], 1)]
    assert sorted(numbered(loaded.splits["test"])) == sorted(test)


def numbered(split: data.Split) -> list[tuple[list[int], int]]:
    return list(zip(split["inputs"].tolist(), split["targets"].tolist(), strict=True))


def test_the_seed_draws_the_parts_and_a_fraction_is_part_of_the_whole(root: Path) -> None:
    texts = [f"word{place} and" for place in range(40)]
    config = tinysets.imdb(root, train=texts, test=texts) | {"held_out": 10, "words": 100}
    whole, again, other = (data.load(config, root, seed=seed).splits for seed in (1, 1, 2))
    part = data.load(config | {"fraction": 0.2}, root, seed=1).splits
    assert {name: len(split["targets"]) for name, split in part.items()} == {"train": 6, "valid": 2, "test": 40}
    for name, split in part.items():
        assert torch.equal(split["inputs"], whole[name]["inputs"][: len(split["targets"])])
        assert torch.equal(whole[name]["inputs"], again[name]["inputs"])
        assert not torch.equal(whole[name]["inputs"], other[name]["inputs"])
    with pytest.raises(NormbenchError, match=r"fraction=0.01 are out of range: of 40 training rows"):
        data.load(config | {"fraction": 0.01}, root)


# -- the cache


def test_the_cache_is_kept_for_these_files_and_options(
    config: dict[str, Any], root: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = data.load(config, root).splits["train"]["inputs"]
    longer = data.load(config | {"length": 7}, root).splits["train"]["inputs"]
    assert torch.equal(longer[:, 1:], first) and len(list((cache / "imdb").iterdir())) == 2
    monkeypatch.setattr(imdb, "encode", None)  # whoever encodes again fails
    assert torch.equal(data.load(config, root).splits["train"]["inputs"], first)
    for changed in ({"words": 13}, {"declares": config["declares"] | {"maths": 99}}):
        with pytest.raises(TypeError):
            data.load(config | changed, root)


# -- the real set


@pytest.mark.data
def test_real_imdb() -> None:
    loaded = data.load(compose.choice("data", "imdb"), seed=1)
    assert {part: tuple(split["inputs"].shape) for part, split in loaded.splits.items()} == {
        "train": (4000, 80),
        "valid": (1000, 80),
        "test": (25000, 80),
    }
    assert loaded.splits["test"]["targets"].bincount().tolist() == [12500, 12500]
    inputs = loaded.splits["train"]["inputs"]
    assert inputs.min() == 0 and 19000 < inputs.max() < 20000


@pytest.mark.data
def test_real_ranks_are_those_of_keras() -> None:
    """Chollet, Deep Learning with Python, 6.1: 88 582 words; the first words of Keras' first review, x_train[0]."""
    name = next(path for path in compose.declaration("data", "imdb")["files"] if "train" in path)
    texts = pq.read_table(data.root() / name)["text"].to_pylist()
    rank = ranks(map(imdb.split, texts), 1)
    assert len(rank) == 88582 and list(rank)[:7] == ["the", "and", "a", "of", "to", "is", "br"]
    began = "this film was just brilliant casting location scenery story direction everyone's really suited"
    kerass = [14, 22, 16, 43, 530, 973, 1622, 1385, 65, 458, 4468, 66, 3941]
    ours = [rank[word] + imdb.FIRST for word in began.split()]
    assert ours == pytest.approx(kerass, rel=5e-3)
    assert sum(a == b for a, b in zip(ours, kerass, strict=True)) >= 10
