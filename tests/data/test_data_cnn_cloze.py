"""CNN's questions from made-up files: the relevant sentences, numbers, parts, the cache, damage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tinysets
import torch
from rich.console import Console
from tinysets import ARTICLE, question

from normbench import data
from normbench.commands import data as data_command
from normbench.data import cloze
from normbench.data.cloze import BLANK, ENTITY
from normbench.data.words import UNKNOWN
from normbench.errors import NormbenchError

# by hand: of seven sentences those with most of (won, race, @entity1); 2 + 0, 0, 2 + 2, 0, 1, 0, 2
KEPT = (
    "the mayor of @entity1 spoke . @entity0 won the race in @entity1 ? @entity2 saw the race . "
    "the race of @entity2 was won by"
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def config(root: Path) -> dict[str, Any]:
    return tinysets.cnn_cloze(root)


def first(root: Path, part: str = "training") -> Path:
    return root / "cnn" / "questions" / part / "0.question"


# -- what becomes of a file


def test_the_most_relevant_sentences_stay_in_their_order() -> None:
    chosen = cloze.relevant(ARTICLE.lower(), tinysets.QUESTION.split(), 4)
    assert chosen == [*KEPT.split(), "@entity0"]  # the last word goes as a file is read
    assert cloze.relevant("a b . c d . e f", ["@placeholder", "x"], 2) == ["a", "b", ".", "c", "d", "."]


def test_numbers_and_parts(config: dict[str, Any], root: Path) -> None:
    loaded = data.load(config, root)
    assert (loaded.name, loaded.notes, list(loaded.splits)) == ("cnn_cloze", (), ["train", "valid", "test"])
    train, valid = loaded.splits["train"], loaded.splits["valid"]
    assert train["answer"].tolist() == [ENTITY, ENTITY + 4] and valid["answer"].tolist() == [ENTITY]
    document, question = (
        train[kind].values[: int(train[kind].lengths[0])].tolist() for kind in ("document", "question")
    )
    # More than once in the training part: the 6 times, race 4, won 3, others twice, of which `by` is none.
    words = KEPT.split()
    numbers = dict(zip(words, document, strict=True))
    assert [numbers[f"@entity{n}"] for n in range(3)] == [ENTITY, ENTITY + 1, ENTITY + 2]
    start = ENTITY + 8
    assert [numbers[word] for word in ("the", "race", "won")] == [start, start + 1, start + 2]
    assert {word for word in words if numbers[word] == UNKNOWN} == {"mayor", "spoke", "?", "saw", "was", "by"}
    assert question == [BLANK, *(numbers[word] for word in ("won", "the", "race", "in", "@entity1"))]
    assert train["question"].lengths.tolist() == [6, 3]  # the blank stays, though last
    assert valid["question"].values.tolist() == [UNKNOWN, BLANK, numbers["won"]]
    for split in loaded.splits.values():
        assert split["document"].values.dtype == split["answer"].dtype == torch.int64
    assert len(loaded.copy["sha256"]) == 64 and len(loaded.copy["deviations"]) == 2


def test_rarer_words_are_unknown(config: dict[str, Any], root: Path) -> None:
    splits = data.load(config | {"words": ENTITY + 8 + 2}, root).splits
    assert max(int(split["document"].values.max()) for split in splits.values()) == ENTITY + 8 + 1
    with pytest.raises(NormbenchError, match=r"data.words=11 is too small for data.entities=8: at least 12"):
        data.load(config | {"words": 11}, root)


# -- damage


@pytest.mark.parametrize(
    "body",
    [
        question().rpartition("\n\n")[0],
        "http://example/story\n\n",
    ],
)
def test_damaged_files(config: dict[str, Any], root: Path, body: str) -> None:
    first(root, "validation").write_text(body)
    with pytest.raises(NormbenchError) as caught:
        data.load(config, root)
    place = first(root, "validation")
    assert str(caught.value).startswith(f"{place} is damaged (")
    assert caught.value.code == 2 and not list((root / "cnn").rglob("*.npz"))


def test_other_encoding_and_too_many_entities(config: dict[str, Any], root: Path) -> None:
    with pytest.raises(NormbenchError, match=r"0.question has @entity2, beyond data.entities=2: .* data.entities=3\.$"):
        data.load(config | {"entities": 2}, root)
    first(root).write_bytes(b"\xff\xfe")
    with pytest.raises(NormbenchError, match=r"0.question is damaged \(.utf-8"):
        data.load(config, root)


def test_no_files_or_not_all(config: dict[str, Any], root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unpack = f"Place at {root}/cnn/questions/training what only you can bring: what cnn.tgz has there (https://"
    first(root, "test").rename(first(root, "test").with_name("1.question"))
    first(root).unlink()
    with pytest.raises(NormbenchError) as caught:
        data.load(config, root)
    assert str(caught.value).startswith(f"{root}/cnn/questions/training has 1 question files instead of 2. {unpack}")
    first(root).with_name("1.question").unlink()
    with pytest.raises(NormbenchError) as caught:
        data.check(config, root)
    absent = f"CNN_CLOZE is not in {root}: cnn/questions/training has no .question files. {unpack}"
    assert str(caught.value).startswith(absent) and str(caught.value).endswith(
        ", or point NORMBENCH_DATA at another folder."
    )
    monkeypatch.setenv("NORMBENCH_DATA", str(root))
    states = dict(data_command.states())
    assert states["cnn_cloze"] == str(caught.value)
    monkeypatch.setenv("NORMBENCH_DATA", str(root / "none"))
    assert dict(data_command.states())["cnn_cloze"].startswith("missing. Place at ")
    with pytest.raises(NormbenchError, match=r"^cnn_cloze: there is nothing to fetch; .*cnn\.tgz"):
        data_command.get("cnn_cloze", Console())
