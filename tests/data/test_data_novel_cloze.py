"""Cloze questions from novels: what a name is, what becomes of a sentence, the cache; (marked `data`) all."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tinysets
import torch

from normbench import data
from normbench.config import compose
from normbench.config.identity import data_checksum
from normbench.data import cloze, triples
from normbench.data.cloze import BLANK, ENTITY
from normbench.data.words import UNKNOWN, Numbers
from normbench.errors import NormbenchError

START = ENTITY + 10


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def config(root: Path) -> dict[str, Any]:
    return tinysets.novel_cloze(root) | {"words": 40}


def read(*texts: str) -> tuple[cloze._Novel, list[str], list[int]]:
    """What is read of a novel, its words in small letters by their number, and their counts."""
    vocabulary = cloze._Vocabulary()
    novel, counts = vocabulary.read(list(texts))
    return novel, list(vocabulary.small), counts.tolist()


# -- names


def test_words() -> None:
    assert cloze.TOKEN.findall("John's 12 o'clock -- isn't \"Ann's\"_;") == [
        *("John", "'s", "12", "o'clock", "-", "-", "isn't", '"', "Ann", "'s", '"', "_", ";")
    ]


def test_names_are_capitalized_within_sentences() -> None:
    often = "so Anna, Mr Rose and ANNA met I'm Vii, Monday and two roses"
    novel, words, counts = read(*[often] * 5, "Never Bob", "Anna's", *["a rose"] * 2, '"Zoe said "Zoe and "Zoe"')
    assert {words[word] for word in novel.words[novel.named]} == {"anna"}
    # Only sentences with names, and the names of all spellings, at a sentence's start too.
    assert len(novel.ends) == 6 and novel.named.sum() == 11
    assert counts[words.index("anna")] == 0 and counts[words.index("rose")] == 7


# -- questions


def test_a_question_by_hand() -> None:
    tokens = cloze.TOKEN.findall("Anna saw Bob. Clara saw Anna. so Bob's dog and bob and Bob ran")
    words = Numbers()
    small = np.array([words[word.lower()] for word in tokens])
    novel = cloze._Novel(small, np.array([word[0].isupper() for word in tokens]), np.array([4, 8, len(tokens)]))
    numbers = np.arange(START, START + len(words))
    assert list(cloze._novel_questions("b", novel, numbers, 10, 8, 3)) == []  # the question is longer
    ids = set()
    for book in "bcdefgh":
        ((document, question, answer),) = cloze._novel_questions(book, novel, numbers, 10, 12, 3)
        anna, saw, bob, stop, clara = document[:5].tolist()
        assert document.tolist() == [anna, saw, bob, stop, clara, saw, anna, stop] and answer == bob
        assert len({anna, bob, clara}) == 3 and {anna, bob, clara} <= set(range(ENTITY, START))
        assert [saw, stop] == numbers[[words["saw"], words["."]]].tolist()
        assert (question == BLANK).tolist() == [word == "Bob" for word in tokens[8:]]
        assert question[5] == numbers[words["bob"]] and question[2] == numbers[words["'s"]]
        ids.add(bob)
    assert len(ids) > 2
    assert list(cloze._novel_questions("b", novel, numbers, 10, 12, 4)) == []
    assert list(cloze._novel_questions("b", novel, numbers, 2, 12, 3)) == []  # no numbers for three


def test_documents_are_the_nearest_whole_sentences(config: dict[str, Any], root: Path) -> None:
    loaded = data.load(config, root)
    assert {part: len(split) for part, split in loaded.splits.items()} == {"train": 300, "valid": 20, "test": 30}
    entities, short = set(range(ENTITY, START)), 0
    for split in loaded.splits.values():
        for place in range(len(split)):
            document, question = (split[kind][place : place + 1].values.tolist() for kind in cloze.TEXTS)
            answer, there = int(split["answer"][place]), entities & set(document)
            # Sentences of 16 words: two of them, but for the first question of a novel.
            assert len(document) in (16, 32) and document[:1] == document[-16:-15] and len(question) == 16
            short += len(document) == 16
            assert answer in there and len(there) >= 3 and answer not in question and BLANK in question
        assert split["document"].values.dtype == split["answer"].dtype == torch.int64
        assert int(split["document"].values.max()) < config["words"]
    assert short < 20


def test_numbers_of_entities_say_nothing(config: dict[str, Any], root: Path) -> None:
    splits = data.load(config | {"questions": 400}, root).splits
    counts = splits["train"]["answer"].bincount(minlength=START)[ENTITY:]
    assert len(counts) == 10 and 18 < counts.min() <= counts.max() < 65  # 40 expected
    again = data.load(config | {"questions": 400}, root, seed=2).splits
    assert torch.equal(splits["train"]["answer"], again["train"]["answer"])


def test_parts_of_the_95_novels_are_fixed() -> None:
    novels = [Path(name).stem for name in compose.declaration("data", "books")["fetch"]["files"]]
    found = triples.parts(novels)
    assert Counter(found.values()) == {"valid": 10, "test": 10, "train": 75} and sorted(found) == sorted(novels)
    assert triples.parts(novels[::-1]) == found
    first = {part: sorted(novel for novel in novels if found[novel] == part)[:2] for part in ("valid", "test")}
    assert first["valid"] == ["Bennet_Helen_1910", "Braddon_Phantom_1883"]
    assert first["test"] == ["Bennet_Imperial_1930", "Blackmore_Erema_1877"]


# -- the cache, and refusals


def test_the_cache_is_kept_for_this_copy_and_these_options(
    config: dict[str, Any], root: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = data.load(config, root)
    fewer = data.load(config | {"questions": 100}, root).splits["train"]
    monkeypatch.setattr(cloze, "_novel_questions", None)  # whoever makes them again fails
    again = data.load(config, root)
    assert again.copy == first.copy and len(list((cache / "novel_cloze").iterdir())) == 1
    assert torch.equal(fewer["answer"], again.splits["train"]["answer"][::3])
    assert torch.equal(fewer.index, again.splits["train"].index[::3])
    for changed in ({"words": 39}, {"entities": 9}, {"length": 41}, {"candidates": 4}):
        with pytest.raises(TypeError):
            data.load(config | changed, root)


def test_refusals(config: dict[str, Any], root: Path) -> None:
    with pytest.raises(NormbenchError, match=r"^data.questions=9999 are more than there are: \d+ with data.length=40"):
        data.load(config | {"questions": 9999}, root)
    with pytest.raises(NormbenchError, match=r"^data.words=13 is too small for data.entities=10: at least 14"):
        data.load(config | {"words": 13}, root)


def test_its_files_are_those_of_the_books(tmp_path: Path) -> None:
    config, books = compose.choice("data", "novel_cloze"), compose.choice("data", "books")
    assert data.made_of(config) == books and data.made_of(books) is books
    assert data_checksum(config) == data_checksum(books)
    with pytest.raises(NormbenchError) as caught:
        data.load(config, tmp_path)
    assert str(caught.value) == (
        f"BOOKS is not in {tmp_path}: Anon_Clara_1864.txt is missing. Bring it with: normbench data get books (80 MB), "
        f"or point NORMBENCH_DATA at another folder."
    )


# -- the real novels


@pytest.mark.data
def test_real_novels() -> None:
    from normbench.papers.ln2016.probes import cloze_rules

    config = compose.choice("data", "novel_cloze")
    splits = data.load(config).splits
    assert {part: len(split) for part, split in splits.items()} == {"train": 53000, "valid": 3000, "test": 3000}
    for split in splits.values():
        numbers = split["document"].values
        assert numbers.min() == UNKNOWN and 7900 < numbers.max() < 8000 and split["document"].lengths.max() <= 75
        assert (numbers == UNKNOWN).float().mean() < 0.06 and not (numbers == BLANK).any()
        counts = split["answer"].bincount(minlength=ENTITY + 50)[ENTITY:].float() / len(split)
        assert len(counts) == 50 and (counts - 1 / 50).abs().max() < 0.012
    # Another program, with rules much like these, found 28.5, 34.2 and 37.7 %, of 3.6 candidates.
    found = cloze_rules.rates(splits["valid"], 50)
    wanted = {"random": 0.285, "frequent": 0.342, "not_in_question": 0.377}
    assert {name: found[name] for name in wanted} == pytest.approx(wanted, abs=0.03)
    assert found["candidates"] == pytest.approx(3.6, abs=0.2) and found["answerable"] == 1
