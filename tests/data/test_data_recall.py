"""The recall task: its target is the marked symbol; parts, lengths and draws."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from normbench import data as datasets
from normbench.config import compose, grammar
from normbench.config.updates import train_size
from normbench.errors import NormbenchError


def config(*words: str) -> compose.Config:
    return compose.compose(grammar.parse(["model=recall_lstm", *words]))


def test_the_target_is_the_marked_symbol() -> None:
    for part in datasets.load(config("data.length=7")["data"], seed=3).splits.values():
        symbols, marker = part["inputs"][..., :8], part["inputs"][..., 8]
        assert torch.equal(symbols.sum(-1), torch.ones_like(marker)) and set(part["inputs"].unique().tolist()) == {
            0.0,
            1.0,
        }
        assert torch.equal(marker.sum(-1), torch.ones(len(marker)))
        assert torch.equal((symbols * marker[..., None]).sum(1).argmax(-1), part["targets"])


def test_of_two_marked_symbols_the_later_one_is_the_target() -> None:
    words = ("data.length=7", "data.asked=later")
    once, twice = (datasets.load(config(*w)["data"], seed=3).splits for w in (words[:1], words))
    for part, split in twice.items():
        symbols, marker = split["inputs"][..., :8], split["inputs"][..., 8]
        assert torch.equal(marker.sum(-1), torch.full((len(marker),), 2.0)), "two places, never the same"
        places = torch.arange(marker.shape[1]) * marker
        later = places.argmax(-1)
        assert torch.equal(symbols[torch.arange(len(symbols)), later].argmax(-1), split["targets"])
        first = once[part]["inputs"]
        assert torch.equal(symbols, first[..., :8]) and bool((first[..., 8] <= marker).all()), "one more is marked"
    pairs = {tuple(row.nonzero().flatten().tolist()) for row in twice["train"]["inputs"][..., 8]}
    assert len(pairs) == 21, "any two places"
    with pytest.raises(NormbenchError, match=r"data\.length=1 has no two places to mark"):
        datasets.load(config("data.length=1", words[1])["data"])


def test_parts_have_their_sizes_and_lengths() -> None:
    node = config("data.length=7", "data.fraction=0.1")
    splits = datasets.load(node["data"], seed=1).splits
    shapes = {name: tuple(split["inputs"].shape) for name, split in splits.items()}
    assert shapes == {
        "train": (500, 7, 9), "valid": (500, 7, 9), "test": (1000, 7, 9),
        "test 2x": (1000, 14, 9), "test 4x": (1000, 28, 9),
    }  # fmt: skip
    assert train_size(node) == 500
    places = splits["test 4x"]["inputs"][..., 8].argmax(-1)
    assert np.bincount(places.numpy(), minlength=28).min() > 0, "every place can be marked"


def test_the_seed_draws_everything_and_a_part_of_the_training_set_is_its_beginning() -> None:
    node = config("data.length=5")["data"]
    one, again, other = (datasets.load(node, seed=seed).splits for seed in (1, 1, 2))
    for part, split in one.items():
        assert torch.equal(split["inputs"], again[part]["inputs"]) and not torch.equal(
            split["inputs"], other[part]["inputs"]
        )
    assert not torch.equal(one["train"]["inputs"][:500], one["valid"]["inputs"])


def test_other_random_numbers_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    node = config()["data"]
    node["declares"] = {**node["declares"], "sha256": "0" * 64}
    with pytest.raises(NormbenchError, match=r"data=recall are not the declared ones.*Reinstall numpy"):
        datasets.load(node)


def test_a_model_of_vectors_does_not_read_sequences() -> None:
    with pytest.raises(NormbenchError, match="model=mnist_mlp reads vectors, data=recall has inputs of time x 9"):
        compose.compose(grammar.parse(["model=mnist_mlp", "data=recall"]))
