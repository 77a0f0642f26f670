"""Texts as characters: the novels, cut into windows of one length, each character of which is predicted once.

Sentences of a book are joined by a blank. Numbers of characters: 0 for everything else, then the alphabet: the
characters of the training books, the most frequent first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from normbench.data import Dataset, files, made_of, novels
from normbench.data.examples import Split
from normbench.data.triples import PARTS, check_count
from normbench.data.triples import parts as split_by_book
from normbench.data.words import ranks, with_progress

OTHER = "�"  # shown for number 0


def novel_text(config: Mapping[str, Any], root: Path, seed: int = 0) -> Dataset:
    """Windows of the novels of data=books below `root`, split by book as the triples are.

    `windows` of those of the training novels, and as many as declared of the other novels', spread evenly; each once an
    epoch. Nothing depends on the seed. The numbers of the characters are cached.
    """
    paths = files.paths(made_of(config), root)
    count, length = int(config["characters"]), int(config["length"])
    arrays, notes = files.cached(config, paths, {"characters": count}, lambda: _numbers(paths, count))
    wanted = {"train": int(config["windows"]), **config["declares"]["sizes"]}
    splits = {}
    for part in PARTS:
        texts = np.split(arrays[part], arrays[f"{part}_lengths"].cumsum()[:-1])
        rows = np.concatenate([windows(text, length) for text in texts])
        check_count("windows", part, wanted[part], len(rows), f" of data.length={length}")
        chosen = np.arange(wanted[part]) * len(rows) // wanted[part]
        splits[part] = Split(text=torch.from_numpy(rows[chosen]), index=torch.from_numpy(chosen))
    copy = {"sha256": novels.checksum(paths), "deviations": []}
    return Dataset(str(config["name"]), splits, notes, copy, [OTHER, *str(arrays["alphabet"])])


def _numbers(paths: Sequence[Path], count: int) -> files.Arrays:
    """For the cache: the alphabet, and of each part the characters of its books, one after another."""
    sentences = novels.books(paths)
    belongs = split_by_book(sentences)
    texts = {book: " ".join(sentences.pop(book)) for book in with_progress(list(sentences), "books")}
    ranked = ranks((text for book, text in texts.items() if belongs[book] == "train"), 1)
    alphabet = "".join(ranked)[: count - 1]
    arrays: files.Arrays = {"alphabet": np.array(alphabet)}
    for part in PARTS:
        numbers = [numbered(text, alphabet) for book, text in texts.items() if belongs[book] == part]
        arrays |= {part: np.concatenate(numbers), f"{part}_lengths": np.array(list(map(len, numbers)))}
    return arrays


def numbered(text: str, alphabet: str) -> np.ndarray:
    """The number of each character, uint8: its place in the alphabet from 1 on, 0 for everything else."""
    points = np.frombuffer(text.encode("utf-32-le"), "<u4")
    known = [ord(character) for character in alphabet]
    table = np.zeros(max(*known, int(points.max())) + 1, np.uint8)
    table[known] = np.arange(1, len(known) + 1)
    return table[points]


def windows(numbers: np.ndarray, length: int) -> np.ndarray:
    """(N, length + 1): each begins with the last character of the one before; a rest of the text is left out."""
    count = max(len(numbers) - 1, 0) // length
    starts = np.arange(count)[:, None] * length
    return numbers[starts + np.arange(length + 1)]
