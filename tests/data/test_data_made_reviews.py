"""The made-up reviews: form, what makes one good, the seed, the declared checksum."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from normbench import data
from normbench.config import compose
from normbench.data import made_reviews
from normbench.errors import NormbenchError


@pytest.fixture
def config() -> dict[str, Any]:
    return compose.choice("data", "made_reviews")


def test_parts(config: dict[str, Any], tmp_path: Path) -> None:
    data.check(config, tmp_path / "absent")
    loaded = data.load(config, tmp_path / "absent", seed=1)
    assert (loaded.name, loaded.notes) == ("made_reviews", ())
    for part, split in loaded.splits.items():
        assert tuple(split["inputs"].shape) == (config["declares"]["sizes"][part], 20)
        assert split["inputs"].dtype == split["targets"].dtype == torch.int64
        assert split["inputs"].max() < config["words"]
        assert 0.35 < split["targets"].float().mean() < 0.65
        for review in split["inputs"].tolist():
            words = review[review.index(made_reviews.START) :]
            assert not any(review[: -len(words)]) and all(word >= made_reviews.FIRST for word in words[1:])


def test_the_majority_of_opinions_decides(config: dict[str, Any]) -> None:
    turned = 0
    for review, good in zip(*(t.tolist() for t in data.load(config).splits["test"].tensors.values()), strict=True):
        score = 0
        for before, word in zip([0, *review], review, strict=False):
            likes = (word in made_reviews.GOOD) - (word in made_reviews.BAD)
            score += -likes if before == made_reviews.NOT else likes
        assert good == (score > 0) and score % 2
        turned += made_reviews.NOT in review
    assert 100 < turned < 300  # of 400


def test_the_seed_draws_and_a_fraction_leaves_the_rest(config: dict[str, Any]) -> None:
    first, again, other, part = (
        data.load(config | more, seed=seed).splits for more, seed in (({}, 1), ({}, 1), ({}, 2), ({"fraction": 0.1}, 1))
    )
    assert torch.equal(first["train"]["inputs"], again["train"]["inputs"])
    assert not torch.equal(first["train"]["inputs"], other["train"]["inputs"])
    assert torch.equal(part["train"]["inputs"], first["train"]["inputs"][:100])
    assert torch.equal(part["test"]["inputs"], first["test"]["inputs"])


def test_refusals(config: dict[str, Any]) -> None:
    other = config | {"declares": config["declares"] | {"sha256": "0" * 64}}
    with pytest.raises(NormbenchError, match=r"sha256 [0-9a-f]{8}… instead of 00000000…"):
        data.load(other)
