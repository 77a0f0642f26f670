"""The made-up cloze questions: numbers, what answers one, the seed, the declared checksum, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from normbench import data
from normbench.config import compose
from normbench.data import made_cloze
from normbench.data.cloze import BLANK, ENTITY
from normbench.errors import NormbenchError


@pytest.fixture
def config() -> dict[str, Any]:
    return compose.choice("data", "made_cloze")


def test_one_sentence_of_the_document_answers_the_question(config: dict[str, Any], tmp_path: Path) -> None:
    data.check(config, tmp_path / "absent")
    loaded = data.load(config, tmp_path / "absent", seed=1)
    entities = set(range(ENTITY, ENTITY + config["entities"]))
    assert (loaded.name, loaded.notes) == ("made_cloze", ())
    for part, split in loaded.splits.items():
        assert len(split) == config["declares"]["sizes"][part]
        assert set(split["answer"].bincount().nonzero().flatten().tolist()) == entities
        shapes = set()
        for place in range(len(split)):
            document, question = (split[name][place : place + 1].values for name in ("document", "question"))
            assert max(document) < config["words"] and len(document) <= config["length"]
            sentences = [set(sentence[:3].tolist()) for sentence in document.split(made_cloze.SENTENCE)]
            wanted = set(question.tolist()) - {BLANK}
            (found,) = (sentence for sentence in sentences if wanted < sentence)
            assert found - wanted == {int(split["answer"][place])} == found & entities
            assert len(set(document.tolist()) & entities) > 1
            shapes.add(len(sentences))
        assert shapes == set(range(2, 6))


def test_the_seed_draws(config: dict[str, Any]) -> None:
    first, again, other = (data.load(config, seed=seed).splits for seed in (1, 1, 2))
    for part, split in first.items():
        assert torch.equal(split["document"].values, again[part]["document"].values)
        assert not torch.equal(split["answer"], other[part]["answer"])


def test_refusals(config: dict[str, Any]) -> None:
    other = config | {"declares": config["declares"] | {"sha256": "0" * 64}}
    with pytest.raises(NormbenchError, match=r"sha256 [0-9a-f]{8}… instead of 00000000…"):
        data.load(other)
    with pytest.raises(NormbenchError, match=r"data.words=13 is too small for data.entities=6: at least 14"):
        data.load(config | {"words": 13})
    assert len(data.load(config | {"words": 14}).splits) == 3
