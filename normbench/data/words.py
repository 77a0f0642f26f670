"""The words of texts by how often they occur."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable


def ranks(texts: Iterable[Iterable[str]], first: int) -> dict[str, int]:
    """A number for each word, from `first` on, the most frequent first; of equally frequent ones the first to appear.

    >>> ranks([["b", "a"], ["a"]], 1)
    {'a': 1, 'b': 2}
    """
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text)
    return {word: place for place, (word, _) in enumerate(counts.most_common(), first)}
