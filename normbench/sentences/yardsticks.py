"""Sentence vectors without training, for comparison. Words are separated by blanks and in small letters."""

from __future__ import annotations

from typing import Any

import numpy as np

from normbench.core.streams import stream
from normbench.sentences import Encode


def bag_of_words(size: int, seed: int) -> Encode:
    """The sum of random vectors of a sentence's words, N(0, 1) drawn by (seed, word), divided by its length."""

    def encode(sentences: list[str], eos: bool) -> np.ndarray:
        from sklearn.feature_extraction.text import CountVectorizer

        counter = CountVectorizer(tokenizer=str.split, token_pattern=None, dtype=np.float32)
        counts = counter.fit_transform(sentences)
        words = counter.get_feature_names_out()
        of_words = np.stack([stream(seed, "word", str(w)).standard_normal(size, dtype=np.float32) for w in words])
        sums = counts @ of_words
        vectors: np.ndarray = sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), np.finfo(np.float32).tiny)
        return vectors

    return encode


def tf_idf(sentences: list[str], eos: bool) -> Any:
    """scikit-learn's TF-IDF of all words of the set, sparse; frequencies in documents are of the same sentences."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(tokenizer=str.split, token_pattern=None).fit_transform(sentences)
