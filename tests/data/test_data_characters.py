"""Texts as characters: every one is predicted once, of one book alone, from an alphabet of the training books."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tinysets
import torch

from normbench import data
from normbench.config import compose
from normbench.data import characters
from normbench.data.novels import books
from normbench.data.triples import parts
from normbench.errors import NormbenchError


def spelt(loaded: data.Dataset, part: str) -> list[str]:
    return ["".join(loaded.words[n] for n in row) for row in loaded.splits[part]["text"].tolist()]


def test_windows_predict_every_character_once() -> None:
    rows = characters.windows(np.arange(12, dtype=np.uint8), 3)
    assert rows.tolist() == [[0, 1, 2, 3], [3, 4, 5, 6], [6, 7, 8, 9]]
    assert characters.windows(np.arange(3, dtype=np.uint8), 3).shape == (0, 4)
    assert characters.windows(np.zeros(0, np.uint8), 3).shape == (0, 4)


def test_a_character_without_a_number_is_everything_else() -> None:
    assert characters.numbered("ab€a\U0001f600", "ba").tolist() == [2, 1, 0, 2, 0]


@pytest.fixture
def novels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, dict[str, object]]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path, tinysets.novel_text(tmp_path)


def test_windows_are_of_the_books_of_their_part(novels: tuple[Path, dict[str, object]]) -> None:
    root, config = novels
    loaded = data.load(config, root)
    sentences = books([root / "books/sentences.parquet"])
    known = set(loaded.words)
    belongs = parts(sentences)
    for part in set(belongs.values()):
        texts = [" ".join(s) for book, s in sentences.items() if belongs[book] == part]
        texts = ["".join(c if c in known else characters.OTHER for c in text) for text in texts]
        windows = spelt(loaded, part)
        assert all(len(window) == 41 and any(window in text for text in texts) for window in windows)
        assert len(set(windows)) == len(windows)
    assert loaded.splits["train"]["text"].dtype == torch.uint8


def test_the_alphabet_is_the_most_frequent_characters(novels: tuple[Path, dict[str, object]]) -> None:
    root, config = novels
    few = data.load({**config, "characters": 5}, root)
    assert list(few.words) == [characters.OTHER, *list(data.load(config, root).words)[1:5]]
    assert int(few.splits["train"]["text"].max()) == 4


def test_more_windows_than_there_are_is_refused(novels: tuple[Path, dict[str, object]]) -> None:
    root, config = novels
    with pytest.raises(NormbenchError, match=r"data\.windows=9999 .* data\.length=40") as caught:
        data.load({**config, "windows": 9999}, root)
    assert caught.value.code == 2


def test_made_text_has_the_characters_of_its_stories(tmp_path: Path) -> None:
    config = compose.choice("data", "made_text")
    loaded = data.load(config, tmp_path, seed=3)
    text = "".join(row[1:] for row in spelt(loaded, "valid"))
    assert {"the", "cat", "."} <= set(text.split()) and characters.OTHER not in text
    assert spelt(loaded, "valid") != spelt(data.load(config, tmp_path, seed=4), "valid")
