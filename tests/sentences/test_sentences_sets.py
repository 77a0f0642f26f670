"""Sets of labelled sentences, rows for them, and the records that come of both."""

from __future__ import annotations

import os
from pathlib import Path

import labelled
import numpy as np
import pytest
from scipy import sparse

from normbench import sentences
from normbench.sentences import folds, relatedness, sets, yardsticks


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(relatedness, "EPOCHS", 10)
    return labelled.write(tmp_path / "data")


def encode(texts: list[str], eos: bool) -> np.ndarray:
    return labelled.vectors(texts)


def test_a_set_is_read_whole_with_its_empty_sentences(folder: Path) -> None:
    mpqa = sets.read("mpqa", folder)
    assert len(mpqa.all) == len(mpqa.targets["mpqa"]) == labelled.ROWS["mpqa"] and mpqa.all.count("") == 1
    assert all("caf\u00e9\u0085" in texts for texts in mpqa.all if texts), "a line ends at a line feed alone"
    sick = sets.read("sick", folder)
    assert list(sick.sentences) == [f"{part}_{side}" for part in ("train", "trial", "test") for side in "ab"]
    assert {part: len(scores) for part, scores in sick.targets.items()} == labelled.PAIRS
    assert sick.eos and not mpqa.eos


def test_every_set_gives_a_record_of_its_encoded_sentences(folder: Path) -> None:
    asked: list[tuple[int, bool]] = []

    def watched(texts: list[str], eos: bool) -> np.ndarray:
        assert all(texts), "no encoder is asked for an empty sentence"
        asked.append((len(texts), eos))
        return encode(texts, eos)

    scored = list(sentences.evaluate(watched, folder, nested=False))
    found = [one.record for one in scored]
    assert [record["split"] for record in found] == list(sentences.ALL) == ["sick", "mr", "cr", "subj", "mpqa"]
    pairs = 2 * sum(labelled.PAIRS.values())
    assert asked == [(pairs, True), (60, False), (43, False), (50, False), (40, False)]
    assert set(found[0]) == {"split", "pearson", "spearman", "mse"}
    assert all(set(record) == {"split", "accuracy", "accuracy_std"} for record in found[1:])
    given = sets.read("cr", folder)
    vectors = labelled.vectors(given.all)
    vectors[given.all.index("")] = 0
    tested = folds.cross_validate(vectors, given.targets["cr"], nested=False)
    assert found[2]["accuracy"] == tested.accuracy and found[2]["accuracy_std"] == tested.accuracies.std()
    assert found[1]["accuracy"] > 0.6, "the words tell the labels"
    np.testing.assert_array_equal(scored[2].examples["accuracy"], tested.right)
    assert scored[0].examples["mse"].mean() == found[0]["mse"]
    assert [len(next(iter(one.examples.values()))) for one in scored] == [labelled.PAIRS["test"], 60, 44, 50, 41], (
        "the empty ones too"
    )


def test_pairs_keep_to_their_sides_and_parts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(relatedness, "pairs", lambda u, v, scores: seen.append((u, v, scores)))
    monkeypatch.setattr(relatedness, "evaluate", lambda *parts: ({}, np.zeros(0)))
    list(sentences.evaluate(encode, folder, nested=False, names=["sick"]))
    sick = sets.read("sick", folder)
    for part, (u, v, scores) in zip(sets.SICK_PARTS, seen, strict=True):
        np.testing.assert_array_equal(u, labelled.vectors(sick.sentences[f"{part}_a"]))
        np.testing.assert_array_equal(v, labelled.vectors(sick.sentences[f"{part}_b"]))
        np.testing.assert_array_equal(scores, sick.targets[part])


def test_all_sets_are_there_before_any_is_computed(folder: Path) -> None:
    (folder / "sentence_eval" / "subj.tsv").unlink()
    with pytest.raises(FileNotFoundError):
        next(sentences.evaluate(lambda *_: pytest.fail("too early"), folder, nested=False))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
def test_an_empty_sentence_has_zeros(folder: Path, form) -> None:
    given = sets.read("mpqa", folder)
    found = sets.encoded(lambda texts, eos: form(labelled.vectors(texts)), given, "x")
    found = found if isinstance(found, np.ndarray) else found.toarray()
    expected = labelled.vectors(given.all)
    assert expected[7, -1] == 1 and given.all[7] == ""
    expected[7] = 0
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("vectors", "error"),
    [
        (np.ones((59, 3)), ValueError),
        (np.ones((1, 3)), ValueError),
        (np.ones(60), ValueError),
        (np.where(np.arange(60) == 7, np.nan, 1.0)[:, None], sets.NotFinite),
        (sparse.csr_matrix(np.where(np.arange(60) == 7, np.inf, 1.0)[:, None]), sets.NotFinite),
    ],
    ids=["a row less", "a single row", "no rows", "NaN", "sparse Inf"],
)
def test_rows_that_do_not_fit_or_are_no_numbers_are_refused(vectors, error: type[Exception], folder: Path) -> None:
    with pytest.raises(error, match=r"^of: .*mr"):
        sets.encoded(lambda texts, eos: vectors, sets.read("mr", folder), "of")


@pytest.mark.parametrize(
    ("kind", "times", "form"),
    [
        (np.int8, 20, np.asarray),
        (np.uint8, 40, np.asarray),
        (np.float16, 300, np.asarray),
        (">f4", 0.1, np.asarray),
        (np.int8, 20, sparse.csr_array),
    ],
)
def test_numbers_are_the_same_in_whatever_type_they_come(kind, times: float, form, folder: Path) -> None:
    """|u - v| and u ⊙ v of bytes and halves do not fit into bytes and halves."""
    wanted_type = np.float32 if kind == ">f4" else np.float64

    def scored(of) -> dict:
        (found,) = sentences.evaluate(of, folder, nested=False, names=["sick"])
        return found.record

    def given(texts: list[str], eos: bool) -> np.ndarray:
        return (times * labelled.vectors(texts)).astype(kind)

    expected = scored(lambda texts, eos: given(texts, eos).astype(wanted_type))
    assert scored(lambda texts, eos: form(given(texts, eos))) == expected


def test_the_bag_of_words_is_a_sum_of_its_words_vectors() -> None:
    found = yardsticks.bag_of_words(50, 1)(["a b", "b", "A", "a a b"], False)
    assert found.shape == (4, 50) and found.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-5)
    a, b = found[2], found[1]
    both = a * np.linalg.norm(_word_vector("a")) + b * np.linalg.norm(_word_vector("b"))
    np.testing.assert_allclose(found[0], both / np.linalg.norm(both), rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(yardsticks.bag_of_words(50, 1)(["zzz", "b"], False)[1], b)
    assert not np.allclose(yardsticks.bag_of_words(50, 2)(["b"], False)[0], b)


def _word_vector(word: str) -> np.ndarray:
    from normbench.core.streams import stream

    return stream(1, "word", word).standard_normal(50, dtype=np.float32)


DATA = Path(os.environ.get("NORMBENCH_DATA") or "data")


@pytest.mark.data
def test_the_real_sets_are_whole() -> None:
    found = {name: sets.read(name, DATA) for name in sets.ALL}
    sizes = {name: len(given.all) for name, given in found.items()}
    assert sizes == {"sick": 2 * 9927, "mr": 10662, "cr": 3775, "subj": 10000, "mpqa": 10606}
    empty = {name: given.all.count("") for name, given in found.items()}
    assert empty == {"sick": 0, "mr": 0, "cr": 4, "subj": 0, "mpqa": 3}
    ones = {name: int(found[name].targets[name].sum()) for name in sets.CLASSIFIED}
    assert ones == {"mr": 5331, "cr": 2407, "subj": 5000, "mpqa": 3312}


@pytest.mark.data
def test_real_sets_are_told_by_random_words_as_well_as_is_known() -> None:
    """MR 70.8 ± 1.1 was seen at 2400 numbers."""
    encode = yardsticks.bag_of_words(2400, 1)
    (found,) = sentences.evaluate(encode, DATA, nested=False, names=["mr"])
    assert 0.697 < found.record["accuracy"] < 0.719
