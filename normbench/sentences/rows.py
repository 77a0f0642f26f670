"""A row for each sentence of a set, from a function that encodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from normbench.errors import BadInput
from normbench.sentences.sets import Labelled


class NotFinite(BadInput):
    """Vectors that hold NaN or Inf, or are so long that what is computed of them would."""


def encoded(encode: Callable[[list[str], bool], Any], labelled: Labelled, of: str) -> Any:
    """The rows (N, D) that `encode` gives the set's sentences, an array or a scipy.sparse matrix; zeros for empty ones.

    `of` says in errors whose they are.
    """
    sentences = labelled.all
    filled = [row for row, sentence in enumerate(sentences) if sentence]
    vectors = encode([sentences[row] for row in filled], labelled.eos)
    if len(vectors.shape) != 2 or vectors.shape[0] != len(filled):
        raise ValueError(f"{of}: vectors {tuple(vectors.shape)} for {len(filled)} sentences of {labelled.name}")
    if vectors.dtype not in (np.float32, np.float64):  # |u - v| of bytes and halves does not fit into these
        vectors = vectors.astype(np.float64)
    if not np.isfinite(vectors if isinstance(vectors, np.ndarray) else vectors.data).all():
        raise NotFinite(f"{of}: the vectors of {labelled.name} hold NaN or Inf.")
    if len(filled) == len(sentences):
        return vectors
    if isinstance(vectors, np.ndarray):
        rows = np.zeros((len(sentences), vectors.shape[1]), vectors.dtype)
        rows[filled] = vectors
        return rows
    from scipy import sparse

    place = sparse.csr_array((np.ones(len(filled)), (filled, range(len(filled)))), (len(sentences), len(filled)))
    return place @ vectors
