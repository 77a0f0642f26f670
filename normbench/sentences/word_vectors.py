"""Vectors of words that another tool learned, from its file, and a map from them into the space of a model's own.

A model knows the words of its training alone. With the map it has a vector for each further word of the file (Kiros et
al. 2015, section 2.2): ordinary least squares with an intercept, fitted on the words that both know.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

import numpy as np

from normbench import reading
from normbench.data import files
from normbench.errors import NormbenchError

LARGEST = 1 << 34  # bytes of a file: those of Google News are 3.6 GB
LONGEST = 1 << 20  # bytes of a line, of which a file that is no text may have one alone


def read(path: Path, wanted: Collection[str]) -> dict[str, np.ndarray]:
    """Those of the wanted words that the file has, (D,) float32 each; of a word that stands there twice the first.

    Forms, each as it is or gzipped: word2vec's text (a line `words numbers`, then a word and its numbers a line), the
    same without that line (GloVe), and word2vec's binary (`.bin`). NormbenchError for a file that is none of these.
    """
    name = path.name.removesuffix(".gz")
    place = files.as_text(path)
    try:
        with reading.opened(path.resolve(), LARGEST) as raw:
            source = io.BufferedReader(gzip.GzipFile(fileobj=raw)) if path.suffix == ".gz" else raw
            found = dict(_binary(source, wanted) if name.endswith(".bin") else _text(source, wanted))
    except (OSError, EOFError, zlib.error) as error:
        raise NormbenchError(f"{place} cannot be read: {getattr(error, 'strerror', '') or error}.") from None
    except ValueError as error:
        raise NormbenchError(f"{place} is no file of word vectors: {error}.") from None
    for word, vector in found.items():
        if not np.isfinite(vector).all():
            raise NormbenchError(f"{place}: the vector of '{word[:40]}' holds NaN or Inf.")
    return found


def fit(of_file: Mapping[str, np.ndarray], own: Mapping[str, np.ndarray]) -> np.ndarray:
    """(D + 1, d): [x, 1] @ it is the vector, in a model's space, of a word whose vector in the file is x (D,).

    of_file: vectors of the file. own: vectors (d,) of the model's words. NormbenchError where they share too few words
    to determine the map.
    """
    shared = [word for word in own if word in of_file]
    if not shared or len(shared) <= len(of_file[shared[0]]):
        numbers = len(of_file[shared[0]]) + 1 if shared else 1
        raise NormbenchError(
            f"of the model's {len(own)} words the file has {len(shared)}: at least {numbers} are needed to map its "
            "vectors into the model's space."
        )
    x = np.stack([of_file[word] for word in shared]).astype(np.float64)
    y = np.stack([own[word] for word in shared]).astype(np.float64)
    solved: np.ndarray = np.linalg.lstsq(_with_one(x), y, rcond=None)[0]
    return solved


def mapped(vectors: np.ndarray, by: np.ndarray) -> np.ndarray:
    """(N, d) float32 of vectors (N, D) of the file."""
    found: np.ndarray = (_with_one(vectors.astype(np.float64)) @ by).astype(np.float32)
    return found


def _with_one(x: np.ndarray) -> np.ndarray:
    return np.c_[x, np.ones(len(x))]


def _text(source: BinaryIO, wanted: Collection[str]) -> Iterator[tuple[str, np.ndarray]]:
    size, given = 0, set[str]()
    for number, line in enumerate(iter(lambda: source.readline(LONGEST), b""), 1):
        first, *numbers = line.decode(errors="replace").rstrip().split(" ")
        if number == 1 and len(numbers) == 1:  # word2vec's heading
            size = int(numbers[0])
            continue
        size = size or len(numbers)
        if not numbers or len(numbers) != size:
            raise ValueError(f"line {number} has {len(numbers)} numbers behind its word, not {size}")
        if first in wanted and first not in given:
            given.add(first)
            yield first, np.array(numbers, dtype=np.float32)


def _binary(source: BinaryIO, wanted: Collection[str]) -> Iterator[tuple[str, np.ndarray]]:
    heading = source.readline(100).split()
    if len(heading) != 2:
        raise ValueError("its first line is not the number of words and of their numbers")
    words, size = int(heading[0]), int(heading[1])
    given = set[str]()
    for place in range(words):
        word = b""
        while (letter := source.read(1)) != b" ":
            if not letter or len(word) > LONGEST:
                raise ValueError(f"it ends at word {place} of {words}")
            word += letter
        numbers = source.read(4 * size)
        if len(numbers) != 4 * size:
            raise ValueError(f"it ends at word {place} of {words}")
        text = word.decode(errors="replace").lstrip("\n")
        if text in wanted and text not in given:
            given.add(text)
            yield text, np.frombuffer(numbers, "<f4").copy()
