"""Shared by sets of images with captions: words of a caption, their numbers, and examples with several captions."""

from __future__ import annotations

import string
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from normbench.data import words
from normbench.data.examples import Ragged
from normbench.data.words import END, UNKNOWN
from normbench.errors import NormbenchError

FIRST = 2  # the number of the most frequent word, behind those of `words`
STRIPPED = str.maketrans("", "", string.punctuation)
Words = Sequence[str]


def split(caption: str) -> list[str]:
    """The words of a caption as in Karpathy's splits: in small letters, without punctuation, at blanks."""
    return caption.lower().translate(STRIPPED).split()


def ranks(captions: Iterable[Words], most: int, of: str) -> dict[str, int]:
    """Each word's number as `words.ranks` gives it, from FIRST on.

    NormbenchError where there are more than `most` numbers allow (`data.words`); `of` names the set.
    """
    found = words.ranks(captions, FIRST)
    if len(found) + FIRST > most:
        raise NormbenchError(
            f"data.words={most} is too few: the captions of data={of} have {len(found)} words, which take "
            f"{len(found) + FIRST} numbers."
        )
    return found


def words_by_number(numbers: Mapping[str, int]) -> list[str]:
    """The word of each number."""
    return ["<end>", "<unknown>", *sorted(numbers, key=numbers.__getitem__)]


def encode(images: Iterable[Sequence[Words]], numbers: Mapping[str, int]) -> Ragged:
    """One sequence an image: the numbers of its captions one after another, END behind each."""
    return joined([[numbers.get(word, UNKNOWN) for word in caption] for caption in image] for image in images)


def joined(images: Iterable[Iterable[Sequence[int]]]) -> Ragged:
    """The same for captions that are numbers already."""
    return Ragged.of(torch.tensor([n for caption in image for n in [*caption, END]]) for image in images)


def unit_rows(features: np.ndarray, of: str) -> Tensor:
    """Each image's features divided by their Euclidean norm, float32; zeros stay.

    NormbenchError for NaN or Inf.
    """
    if features.dtype == np.float16:  # its squares end at 65504
        features = features.astype(np.float32)
    if not np.isfinite(features).all():
        row = int(np.flatnonzero(~np.isfinite(features).all(1))[0])
        raise NormbenchError(f"{of}: row {row} holds NaN or Inf. Extract the features of that image anew.")
    norms = np.linalg.norm(features, axis=1, keepdims=True)
    return torch.from_numpy((features / np.where(norms > 0, norms, 1)).astype(np.float32))
