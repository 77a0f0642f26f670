"""IMDB reviews as sequences of word numbers, rebuilt from the texts as Keras' imdb.npz has them; cached."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from normbench.data import Dataset, files, hub, images
from normbench.data.examples import Split
from normbench.data.words import ranks

COLUMNS = ("text", "label")
BLOCK = 128  # the archive has the reviews of a class by their numbers in blocks of so many, each backwards
# characters that keras.preprocessing.text.Tokenizer treats as blanks
FILTERED = '!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n'
BLANKS = str.maketrans(FILTERED, " " * len(FILTERED))
PADDING, START, UNKNOWN, FIRST = 0, 1, 2, 3  # imdb.load_data: a word of rank r is FIRST + r
DEVIATIONS = (
    "IMDB: word ranks are counted anew in the training reviews, words of equal frequency in the order of their first "
    "appearance; some may differ from those in Keras' imdb.npz",
)


def imdb(config: Mapping[str, Any], root: Path, seed: int = 0) -> Dataset:
    """IMDB from the parquet files below `root` or at `source`; NormbenchError for other reviews than the declared ones.

    Inputs (N, length) int64 of numbers below `words`, as Keras' `imdb.load_data(num_words=words)` and `pad_sequences`
    make them: 0 before a shorter review, 1 at its start, 2 for a rarer word, 3 + its rank in the training reviews for
    any other; of a longer review the last `length`. Words of the test reviews that no training review has are skipped.
    Targets 1 where positive. Parts as `images.random_parts`. All 25 000 training reviews make the ranks, as for the
    original.
    """
    options, paths = (int(config["words"]), int(config["length"])), hub.parts(config, root)
    arrays, notes = files.cached(
        config, [*paths["train"], *paths["test"]], options, lambda: _encoded(config, paths, *options)
    )
    rows = images.random_parts(config, len(arrays["train_labels"]), len(arrays["test_labels"]), seed)
    splits = {}
    for name, chosen in rows.items():
        part = "test" if name == "test" else "train"
        inputs, labels = (arrays[f"{part}_{kind}"][chosen].astype(np.int64) for kind in ("words", "labels"))
        splits[name] = Split(
            inputs=torch.from_numpy(inputs), targets=torch.from_numpy(labels), index=torch.from_numpy(chosen)
        )
    copy = {"sha256": files.checksum(config["declares"]["files"]), "deviations": list(DEVIATIONS)}
    return Dataset(str(config["name"]), splits, notes, copy)


def _encoded(config: Mapping[str, Any], paths: Mapping[str, Sequence[Path]], words: int, length: int) -> files.Arrays:
    """Word numbers (N, length) int32 and labels (N,) uint8 of both parts."""
    rows = _reviews(config, paths)
    rank = ranks((split(text) for text, _ in rows["train"]), 1)
    arrays: files.Arrays = {}
    for part, reviews in rows.items():
        arrays[f"{part}_words"] = np.stack([encode(split(text), rank, words, length) for text, _ in reviews])
        arrays[f"{part}_labels"] = np.array([label for _, label in reviews], np.uint8)
    return arrays


def _reviews(config: Mapping[str, Any], paths: Mapping[str, Sequence[Path]]) -> dict[str, list[tuple[str, int]]]:
    """Texts and labels by part, in the declared order; NormbenchError unless they are those declared."""
    orders = {}  # of each part: as its files have it, and as if these were in the archive's order; with their sums
    for part in hub.PARTS:
        table = hub.columns(paths[part], *COLUMNS)
        rows = list(zip(*(table[column] for column in COLUMNS), strict=True))
        archived = [rows[place] for place in as_in_archive(len(rows) // 2)]
        orders[part] = [(rows, _sum(rows)), (archived, _sum(archived))]
    for chosen in itertools.product(*orders.values()):
        if files.checksum([part_sum for _, part_sum in chosen]) == config["declares"]["sha256"]:
            return {part: rows for part, (rows, _) in zip(orders, chosen, strict=True)}
    raise hub.refusal(config, f"has other reviews than data={config['name']} declares")


def _sum(rows: Sequence[tuple[str, int]]) -> str:
    """The sha256 of a line a row, each a JSON list, below one of the columns' names."""
    lines = (json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in (COLUMNS, *rows))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def as_in_archive(half: int) -> list[int]:
    """The order of a part's rows in the official archive, which the hub keeps; two classes of `half` reviews each.

    Its own inverse: of rows by their numbers it makes that order, and of that order rows by their numbers.
    """
    blocks = [range(half)[start : start + BLOCK] for start in range(0, half, BLOCK)]
    return [first + place for first in (0, half) for block in blocks for place in reversed(block)]


def split(text: str) -> list[str]:
    """The words of a text as Keras' Tokenizer splits it: in small letters, at blanks and FILTERED, nowhere else."""
    return [word for word in text.lower().translate(BLANKS).split(" ") if word]


def encode(text: list[str], rank: Mapping[str, int], words: int, length: int) -> np.ndarray:
    """The last `length` numbers of a text (length,) int32, zeros before a shorter one."""
    places = [place for word in text if (place := rank.get(word)) is not None]
    numbers = [START, *(place + FIRST if place + FIRST < words else UNKNOWN for place in places)][-length:]
    encoded = np.full(length, PADDING, np.int32)
    encoded[length - len(numbers) :] = numbers
    return encoded
