"""IMDB reviews as sequences of word numbers, rebuilt from the texts as Keras' imdb.npz has them; cached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from normbench.data import Dataset, array_cache, check, content, files, hub, random_split
from normbench.data.array_cache import Arrays
from normbench.data.examples import Split
from normbench.data.words import ranks
from normbench.errors import NormbenchError

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


def load(config: Mapping[str, Any], root: Path, seed: int = 0) -> Dataset:
    """IMDB from the parquet files below `root` or at `source`; NormbenchError when one is missing or damaged.

    Inputs (N, length) int64 of numbers below `words`, as Keras' `imdb.load_data(num_words=words)` and `pad_sequences`
    make them: 0 before a shorter review, 1 at its start, 2 for a rarer word, 3 + its rank in the training reviews for
    any other; of a longer review the last `length`. Words of the test reviews that no training review has are skipped.
    Targets 1 where positive. Parts as `random_split.parts`. All 25 000 training reviews make the ranks, as for the
    original.
    """
    check(config, root)
    words, length = int(config["words"]), int(config["length"])
    paths = hub.parts(config, root)
    # The name has the files' checksums: each copy has a cache file of its own.
    sums = [files.digest(path, "sha256") for part in hub.PARTS for path in paths[part]]
    name = content.checksum([sums, int(config["declares"]["maths"]), words, length])[:32]
    arrays, notes = array_cache.arrays(
        files.cache("imdb") / f"{name}.npz",
        lambda: _encode_all(config, paths, words, length, name),
        "IMDB is encoded anew for every process.",
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


def _encode_all(
    config: Mapping[str, Any], paths: Mapping[str, Sequence[Path]], words: int, length: int, name: str
) -> Arrays:
    """Word numbers (N, length) int32 and labels (N,) uint8 of both parts; `name` identifies these files and options."""
    tables = {part: _check_table(config, part, paths[part]) for part in hub.PARTS}
    rank = ranks(map(split, tables["train"]["text"]), 1)

    def numbered(rows: Mapping[str, Sequence[str]]) -> dict[str, list[np.ndarray]]:
        return {"numbers": [encode(split(text), rank, words, length) for text in rows["text"]]}

    arrays: Arrays = {}
    for part, table in tables.items():
        # Named by us: `datasets` would make the fingerprint of all ranks, and not of the functions called.
        encoded = table.map(numbered, batched=True, remove_columns=["text"], new_fingerprint=f"{name}-{part}")
        found = encoded.with_format("numpy")[:]
        arrays[f"{part}_words"] = np.stack(found["numbers"]).astype(np.int32)
        arrays[f"{part}_labels"] = found["label"].astype(np.uint8)
    return arrays


def _check_table(config: Mapping[str, Any], part: str, paths: Sequence[Path]) -> Any:
    """The table of a part, its rows in the declared order; NormbenchError unless they are those declared."""
    table = hub.read(paths, COLUMNS)
    rows = table.to_dict()
    found, wanted = len(table), config["declares"]["sizes"][part]
    classes = hub.classes(rows["label"])
    if found != wanted or classes != [0, 1]:
        raise NormbenchError(
            f"IMDB's {part} files hold {found} reviews of classes {classes} instead of {wanted} of classes [0, 1]."
        )
    name = next(name for name in files.declared(config) if Path(name).name.startswith(part))
    if not (declared := content.declared(config["declares"], name)):
        return table
    sums = []
    for order in (range(found), as_in_archive(found // 2)):
        sums.append(content.of_rows(COLUMNS, [[[rows[column][place] for place in order] for column in COLUMNS]]))
        if sums[-1] == declared:
            return table.select(order)
    raise hub.refusal(config, f"{part} reviews", sums[0], declared)


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
