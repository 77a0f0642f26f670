"""IMDB reviews as sequences of word numbers, rebuilt from the texts as Keras' imdb.npz has them; kept in the cache."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from normbench.data import Dataset, array_cache, check, content, files, random_split
from normbench.data.array_cache import Arrays
from normbench.data.examples import Split
from normbench.errors import NormbenchError

PARTS = ("train", "test")
# keras.preprocessing.text.Tokenizer: what it takes for a blank
FILTERED = '!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n'
BLANKS = str.maketrans(FILTERED, " " * len(FILTERED))
PADDING, START, UNKNOWN, FIRST = 0, 1, 2, 3  # imdb.load_data: a word of rank r is FIRST + r
DEVIATIONS = (
    "IMDB: word ranks are counted anew in the training reviews, words of equal frequency in the order of their first "
    "appearance; some may differ from those in Keras' imdb.npz",
)


def load(config: Mapping[str, Any], root: Path, seed: int = 0) -> Dataset:
    """IMDB from the parquet files below `root`; NormbenchError when one is missing or damaged.

    Inputs (N, length) int64 of numbers below `words`, as Keras' `imdb.load_data(num_words=words)` and `pad_sequences`
    make them: 0 before a shorter review, 1 at its start, 2 for a rarer word, 3 + its rank in the training reviews for
    any other; of a longer review the last `length`. Words of the test reviews that no training review has are skipped.
    Targets 1 where positive. Parts as `random_split.parts`. All 25 000 training reviews make the ranks, as for the
    original.
    """
    check(config, root)
    words, length = int(config["words"]), int(config["length"])
    # The files' sums in the name keep two copies apart.
    sums = [files.digest(root / name, "sha256") for name in files.declared(config)]
    maths = int(config["declares"]["maths"])
    target = files.cache("imdb") / f"{content.checksum([sums, maths, words, length])[:32]}.npz"
    arrays, notes = array_cache.arrays(
        target, lambda: _encoded(config, root, words, length), "IMDB is encoded anew for every process."
    )
    rows = random_split.parts(config, len(arrays["train_labels"]), len(arrays["test_labels"]), seed, "reviews")
    splits = {}
    for name, chosen in rows.items():
        part = "test" if name == "test" else "train"
        inputs, labels = (arrays[f"{part}_{kind}"][chosen].astype(np.int64) for kind in ("words", "labels"))
        splits[name] = Split(
            inputs=torch.from_numpy(inputs), targets=torch.from_numpy(labels), index=torch.from_numpy(chosen)
        )
    facts = config["declares"]
    copy = {"sha256": content.checksum(facts["files"]), "deviations": list(DEVIATIONS)}
    return Dataset(str(config["name"]), splits, notes, copy)


def _encoded(config: Mapping[str, Any], root: Path, words: int, length: int) -> Arrays:
    """Word numbers (N, length) int32 and labels (N,) uint8 of both parts."""
    rows = {part: list(_rows(config, root, part)) for part in PARTS}
    rank = ranks(split(text) for text, _ in rows["train"])
    arrays: Arrays = {}
    for part, reviews in rows.items():
        found, wanted = len(reviews), config["declares"]["sizes"][part]
        classes = sorted({label for _, label in reviews})
        if found != wanted or classes != [0, 1]:
            raise NormbenchError(
                f"IMDB's {part} files hold {found} reviews of classes {classes} instead of {wanted} of classes [0, 1]."
            )
        arrays[f"{part}_words"] = np.stack([encode(split(text), rank, words, length) for text, _ in reviews])
        arrays[f"{part}_labels"] = np.array([label for _, label in reviews], np.uint8)
    return arrays


def split(text: str) -> list[str]:
    """The words of a text as Keras' Tokenizer splits it: in small letters, at blanks and FILTERED, nowhere else."""
    return [word for word in text.lower().translate(BLANKS).split(" ") if word]


def ranks(texts: Iterable[Iterable[str]]) -> dict[str, int]:
    """Each word's place, from 1, among all by frequency; of equally frequent ones the first to appear comes first."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text)
    return {word: place for place, (word, _) in enumerate(counts.most_common(), 1)}


def encode(text: list[str], rank: Mapping[str, int], words: int, length: int) -> np.ndarray:
    """The last `length` numbers of a text (length,) int32, zeros before a shorter one."""
    places = [place for word in text if (place := rank.get(word)) is not None]
    numbers = [START, *(place + FIRST if place + FIRST < words else UNKNOWN for place in places)][-length:]
    encoded = np.full(length, PADDING, np.int32)
    encoded[length - len(numbers) :] = numbers
    return encoded


def _rows(config: Mapping[str, Any], root: Path, part: str) -> Iterator[tuple[str, int]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    for path in (root / name for name in files.declared(config) if Path(name).name.startswith(part)):
        try:
            table = pq.read_table(path, columns=["text", "label"])
            rows = zip(table["text"].to_pylist(), table["label"].to_pylist(), strict=True)
            yield from ((str(text), int(label)) for text, label in rows)
        except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
            raise NormbenchError(
                f"{files.shown(path)} has the declared checksum, but not the columns text, label: {error}"
            ) from error
