"""Triples of neighbouring sentences: of novels, of a user's BookCorpus, made up; words; (marked `data`) all novels."""

from __future__ import annotations

import itertools
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tinysets
from tinysets import TITLES, lines

from normbench import data
from normbench.config import compose
from normbench.data import triples, words
from normbench.data.examples import Split
from normbench.data.sampler import Sampler
from normbench.errors import NormbenchError

AROUND = ("previous", "sentence", "next")


def texts_of(split: Split, row: int, names: list[str]) -> tuple[str, ...]:
    """Previous, sentence and next as texts; each ends with its END, which is left out here."""
    batch = split.batch(slice(row, row + 1)).tensors
    rows = [batch[name][0][batch[f"{name}_mask"][0]].tolist() for name in AROUND]
    assert all(numbers[-1] == words.END and words.END not in numbers[:-1] for numbers in rows)
    return tuple(" ".join(names[n] for n in numbers[:-1]) for numbers in rows)


# --- words ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("He didn't -- couldn't -- go, sir!", "he did n't -- could n't -- go , sir !"),
        ("\"It's John's,\" I said.", "\" it 's john 's , \" i said ."),
        ("`` i 'm here , '' she said .", '" i \'m here , " she said .'),
        ("O'clock; the well-known 3.5 % (rock'n'roll)…", "o'clock ; the well-known 3.5 % ( rock'n'roll ) …"),
        ("They'll've won't can't", "they 'll 've wo n't ca n't"),
        ("Été_1 ...  x", "été _ 1 ... x"),
        ("", ""),
    ],
)
def test_words(text: str, found: str) -> None:
    assert words.split(text) == found.split()
    assert words.split(" ".join(words.split(text))) == found.split(), "what has been split is split no further"


# --- what a triple is -------------------------------------------------------------------------------------------------


def made(of: dict[str, list[str]], belongs: dict[str, str], size: int = 50, length: int = 5) -> dict[str, Any]:
    return triples.made(list(of), of.__getitem__, belongs, size, length)


def test_triples_are_neighbours_of_one_book() -> None:
    """None across two books, none with a sentence that is too long; sentences without a word are none."""
    texts = {
        "a": ["A one.", "a two!", "", "A three", "far too many words for this one", "a four", "a five", "a six"],
        "b": ["B one", "B two", "B three"],
        "c": ["C one two", "C two", "D"],
        "d": ["Zebra one", "a two", "a three two"],
    }
    arrays = made(texts, {"a": "train", "b": "train", "c": "valid", "d": "test"})
    splits, names = triples.splits(arrays, {}), arrays["words"].tolist()
    assert [texts_of(splits["train"], row, names) for row in range(len(splits["train"]))] == [
        ("a one .", "a two !", "a three"),
        ("a four", "a five", "a six"),
        ("b one", "b two", "b three"),
    ]
    # words are those of the training books, most frequent first, of equally frequent ones the first
    assert names[:6] == ["<end>", "<unknown>", "a", "one", "b", "two"] and "zebra" not in names and "c" not in names
    assert texts_of(splits["valid"], 0, names) == ("<unknown> one two", "<unknown> two", "<unknown>")
    assert texts_of(splits["test"], 0, names) == ("<unknown> one", "a two", "a three two")
    few = made(texts, {"a": "train", "b": "train", "c": "valid", "d": "test"}, size=4)
    assert few["words"].tolist() == ["<end>", "<unknown>", "a", "one"]
    assert texts_of(triples.splits(few, {})["train"], 1, few["words"].tolist()) == ("a <unknown>",) * 3


def test_some_are_spread_evenly() -> None:
    texts = {name: [f"word{chr(97 + i)} x" for i in range(22)] for name in ("a", "b", "c")}
    arrays = made(texts, {"a": "train", "b": "valid", "c": "test"})
    splits = triples.splits(arrays, {"train": 4, "test": 20})
    assert {part: len(split) for part, split in splits.items()} == {"train": 4, "valid": 20, "test": 20}
    names = arrays["words"].tolist()
    assert [texts_of(splits["train"], row, names)[0] for row in range(4)] == [f"word{c} x" for c in "afkp"]
    with pytest.raises(NormbenchError, match=r"data\.triples=21 are more than there are: 20\."):
        triples.splits(arrays, {"train": 21})


def test_triples_with_a_long_sentence_can_be_dropped_from_the_batches() -> None:
    """As the code does it: sources of up to one word more are batched, then those with a longer sentence dropped."""
    draw = np.random.default_rng(1)
    texts = {name: [" ".join(["w"] * k) for k in draw.integers(1, 8, 60)] for name in ("a", "b", "c", "d")}
    arrays = made(texts, {"a": "train", "b": "train", "c": "valid", "d": "test"}, length=5)
    before, after = (triples.splits(arrays, {}, filtered) for filtered in ("before", "after"))
    sizes = [[len(text.split()) for text in texts[name]] for name in ("a", "b")]
    around = [own[k - 1 : k + 2] for own in sizes for k in range(1, 59)]
    batched = [three for three in around if three[1] <= 6]
    short = [three for three in batched if max(three) <= 5]
    split = after["train"]
    assert split.lengths is not None and split.dropped is not None
    assert split.lengths.tolist() == [middle + 1 for _, middle, _ in short] == before["train"].lengths.tolist()  # type: ignore[union-attr]
    left = [middle for _, middle, _ in batched if middle <= 5]  # a batch of six words is dropped whole
    assert sorted([*split.lengths - 1, *split.dropped - 1]) == sorted(left) and len(short) < len(left) < len(batched)
    assert all(part.dropped is None for part in (*before.values(), after["valid"], after["test"]))
    some = triples.splits(arrays, {"train": len(short) // 2}, "after")["train"]
    assert some.dropped is not None
    assert len(some.dropped) == len(split.dropped) * len(some) // len(split)
    sampler = Sampler.of(
        {"sampler": "lengths_in_turn", "batch_size": 8, "reshuffle": True, "drop_last": False}, 1, split
    )
    whole = {n: left.count(n) for n in set(left)}
    assert sampler.per_epoch == sum(-(-count // 8) for count in whole.values())
    batches = [split.batch(sampler.batch(update)).tensors for update in range(sampler.per_epoch)]
    assert sum(len(batch["sentence"]) for batch in batches) >= len(split)
    assert all(len(set(batch["sentence_mask"].sum(1).tolist())) == 1 for batch in batches)


def test_books_that_give_no_triple_are_refused() -> None:
    texts = {"a": ["x y"] * 3, "b": ["x"] * 2 + [""], "c": ["x y z"] * 4}
    with pytest.raises(
        NormbenchError, match=r"^b has 2 sentences: a triple takes three\. Add to it, or take it away\.$"
    ):
        made(texts, dict.fromkeys(texts, "train"))
    del texts["b"]
    with pytest.raises(
        NormbenchError, match=r"data\.length=2: the books for valid have no three neighbouring sentences"
    ):
        made({**texts, "d": ["x"] * 3}, {"a": "train", "c": "valid", "d": "test"}, length=2)


# --- the novels -------------------------------------------------------------------------------------------------------


@pytest.fixture
def novels(tmp_path: Path) -> dict[str, Any]:
    """The set with a few made-up novels in the place of data=books."""
    return tinysets.novel_triples(tmp_path)


def test_novels_are_split_by_title(novels: dict[str, Any], tmp_path: Path, cache: Path) -> None:
    first = data.load(novels, tmp_path)
    assert len(list((cache / "novel_triples").iterdir())) == 1
    again = data.load(novels, tmp_path)
    numbers = {part: {t[-2:] for t, of in triples.parts(TITLES).items() if of == part} for part in first.splits}
    for part, split in first.splits.items():
        assert len(split) == {"train": 100, "valid": 5, "test": 5}[part]
        assert np.array_equal(split["sentence"].values, again.splits[part]["sentence"].values)
        seen = {texts_of(split, row, list(first.words))[1].split()[1] for row in range(len(split))}
        assert seen <= (numbers[part] if part == "train" else {"<unknown>"})
    with pytest.raises(NormbenchError, match=r"data\.triples=9999 are more than there are: 160\."):
        data.load({**novels, "triples": 9999}, tmp_path)


def test_downstream_tasks_are_checked_before_anything_is_trained(novels: dict[str, Any], tmp_path: Path) -> None:
    asked = {"data": novels, "eval": {"tasks": ["mr"]}}
    assert [config["name"] for config in data.read_by(asked)] == ["novel_triples", "sick", "sentence_eval"]
    assert [config["name"] for config in data.read_by({**asked, "eval": {"tasks": []}})] == ["novel_triples"]
    tasks = data.load(novels, tmp_path).tasks
    assert tasks is not None
    with pytest.raises(NormbenchError, match=r"SICK_train\.txt is missing\. Bring it with: normbench data get sick"):
        tasks().__enter__()


# --- different sentences ----------------------------------------------------------------------------------------------


def of_words(lengths: np.ndarray, high: int) -> Split:
    draw = np.random.default_rng(1)
    numbers = draw.integers(1, high, int(lengths.sum())).astype(np.int32)
    return triples.triples(numbers, lengths, np.arange(1, len(lengths) - 1), np.arange(3))


@pytest.mark.parametrize("most", [1, 7, 500, 10**6])
@pytest.mark.parametrize("high", [3, 300])
def test_different_sentences_are_spread_over_all_in_the_order_they_first_come(high: int, most: int) -> None:
    part = of_words(np.random.default_rng(2).integers(1, 7, 2000), high)
    numbers, ends = part["sentence"].values.tolist(), part["sentence"].offsets.tolist()
    expected = list(dict.fromkeys(tuple(numbers[a:b]) for a, b in itertools.pairwise(ends)))
    count = min(most, len(expected))
    assert triples.different(part, most) == [list(expected[k * len(expected) // count]) for k in range(count)]


def test_different_sentences_take_little_memory() -> None:
    part = of_words(np.full(20_000, 12), 10**6)
    tracemalloc.start()
    try:
        assert len(triples.different(part, 100)) == 100
        assert tracemalloc.get_traced_memory()[1] < 5 * part["sentence"].values.nbytes
    finally:
        tracemalloc.stop()


# --- a user's BookCorpus ----------------------------------------------------------------------------------------------


@pytest.fixture
def corpus(tmp_path: Path) -> dict[str, Any]:
    config = tinysets.book_corpus(tmp_path)
    for path in (tmp_path / "bookcorpus").iterdir():
        path.unlink()
    return config


def seen(loaded: data.Dataset) -> dict[str, set[str]]:
    """The numbers of the books of each part's sentences; those held out are unknown words."""
    return {
        part: {texts_of(split, row, list(loaded.words))[1].split()[1] for row in range(len(split))}
        for part, split in loaded.splits.items()
    }


def test_a_file_is_a_book(corpus: dict[str, Any], tmp_path: Path) -> None:
    for i in range(19):
        (tmp_path / "bookcorpus" / f"{i:02}.txt").write_text(lines(i) + "\n", encoding="utf-8")
    (tmp_path / "bookcorpus" / "notes.md").write_text("no book")
    loaded = data.load(corpus, tmp_path)
    assert {part: len(split) for part, split in loaded.splits.items()} == {"train": 15 * 7, "valid": 3, "test": 3}
    assert len(seen(loaded)["train"]) == 15 and seen(loaded)["valid"] == seen(loaded)["test"] == {"<unknown>"}
    assert len(loaded.copy["sha256"]) == 64 and loaded.copy["deviations"]
    parts = triples.parts([f"{i:02}.txt" for i in range(19)])
    changed = [name for name, part in parts.items() if part == "train"][3]
    (tmp_path / "bookcorpus" / changed).write_text(lines(77, 12), encoding="utf-8")
    other = data.load(corpus, tmp_path)
    assert other.copy["sha256"] != loaded.copy["sha256"] and len(other.splits["train"]) != len(loaded.splits["train"])


def test_a_mark_of_the_byte_order_is_no_word(corpus: dict[str, Any], tmp_path: Path) -> None:
    found = []
    for encoding in ("utf-8", "utf-8-sig"):
        for i in range(19):
            (tmp_path / "bookcorpus" / f"{i:02}.txt").write_text(lines(i), encoding=encoding)
        found.append(data.load(corpus, tmp_path))
    unmarked, marked = found
    assert marked.words == unmarked.words and marked.copy == unmarked.copy and "\ufeff" not in marked.words
    for part, split in unmarked.splits.items():
        assert np.array_equal(split["sentence"].values, marked.splits[part]["sentence"].values)


def test_where_books_are_not_told_apart_blocks_stand_for_them(
    corpus: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two large files, as it was handed out; or rows of the hub's set: the same of the same lines."""
    monkeypatch.setattr(triples, "BLOCK", 9)
    texts = [lines(i) for i in range(19)] + ["the end .\n"]
    for part, own in enumerate((texts[:8], texts[8:])):
        (tmp_path / "bookcorpus" / f"books_large_p{part + 1}.txt").write_text("".join(own), encoding="utf-8")
    loaded = data.load(corpus, tmp_path)
    assert sum(len(split["sentence"].offsets) - 1 for split in loaded.splits.values()) == 19 * 9 + 1, "none is lost"
    assert len(loaded.splits["train"]) in (15 * 7, 15 * 7 + 1) and len(seen(loaded)["train"]) >= 15
    (tmp_path / "hub").mkdir()
    rows = "".join(texts).splitlines()
    pq.write_table(pa.table({"text": rows}), tmp_path / "hub" / "train-00000-of-00001.parquet")
    of_hub = data.load({**corpus, "source": str(tmp_path / "hub")}, tmp_path)
    assert of_hub.copy == loaded.copy and of_hub.words == loaded.words
    for part, split in loaded.splits.items():
        assert np.array_equal(split["next"].places, of_hub.splits[part]["next"].places)


def test_what_is_no_corpus_is_refused(corpus: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(
        NormbenchError, match=r"bookcorpus has no \.txt files\. Place at \S+/bookcorpus what only you can bring: text"
    ):
        data.load(corpus, tmp_path)
    for i in range(12):
        (tmp_path / "bookcorpus" / f"{i:02}.txt").write_text(lines(i), encoding="utf-8")
    (tmp_path / "bookcorpus" / "05.txt").write_bytes(b"caf\xe9\n" * 9)
    with pytest.raises(NormbenchError, match=r"05\.txt is not UTF-8, or cannot be read \("):
        data.load(corpus, tmp_path)
    (tmp_path / "bookcorpus" / "05.txt").write_text("one .\n\n \ntwo .\n", encoding="utf-8")
    with pytest.raises(NormbenchError, match=r"05\.txt has 2 sentences: a triple takes three\."):
        data.load(corpus, tmp_path)
    for i in range(2, 12):
        (tmp_path / "bookcorpus" / f"{i:02}.txt").unlink()
    with pytest.raises(NormbenchError, match=r"bookcorpus has 0 times 10000 sentences in 2 files: at least 10 books"):
        data.load(corpus, tmp_path)
    with pytest.raises(NormbenchError, match=r"data\.source=nobody cannot be loaded"):
        data.load({**corpus, "source": "nobody"}, tmp_path)


@pytest.mark.data
def test_the_real_novels() -> None:
    loaded = data.load(compose.choice("data", "novel_triples"))
    train = loaded.splits["train"]
    values = train["sentence"].values
    assert len(train) == 295_000 and values.max() == 9999 and (values == words.UNKNOWN).float().mean() < 0.06
    assert all(train[name].lengths.max() == 30 for name in AROUND)
