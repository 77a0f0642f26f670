"""The words of texts: where they begin and end, and their numbers by how often they occur."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np

END, UNKNOWN = 0, 1  # numbers: of the end of a text and of padding, and of a word that has none of its own
_ENDING = r"'(?:s|m|d|re|ve|ll)\b"
TOKEN = re.compile(
    rf"[^\W\d_]+(?=n't\b)|n't\b|{_ENDING}"  # do n't, it 's
    rf"|[^\W\d_]+(?:(?:-|'(?!(?:s|m|d|re|ve|ll|t)\b))[^\W\d_]+)*"  # o'clock, well-known
    r"|\d+(?:[.,]\d+)*|''|``|--+|\.\.+|[^\w\s]|_"
)
QUOTES = {"''": '"', "``": '"'}
Item = TypeVar("Item")


class Numbers(dict[str, int]):
    """A number for every word that is asked for, in the order of their first appearance."""

    def __missing__(self, word: str) -> int:
        self[word] = len(self)
        return self[word]


def ranks(texts: Iterable[Iterable[str]], first: int) -> dict[str, int]:
    """A number for each word, from `first` on, the most frequent first; of equally frequent ones the first to appear.

    >>> ranks([["b", "a"], ["a"]], 1)
    {'a': 1, 'b': 2}
    """
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text)
    return {word: place for place, (word, _) in enumerate(counts.most_common(), first)}


def ranked(counts: np.ndarray, first: int, words: int) -> np.ndarray:
    """For words counted (N,) their numbers (N,) int32 from `first` on, most frequent first; UNKNOWN from `words` on.

    Of equally frequent ones the first comes first; words that are counted nowhere are UNKNOWN.
    """
    order = np.argsort(-counts, kind="stable")[: max(words - first, 0)]
    order = order[counts[order] > 0]
    numbers = np.full(len(counts), UNKNOWN, np.int32)
    numbers[order] = np.arange(first, first + len(order))
    return numbers


def words_by_number(codes: Mapping[str, int], numbers: np.ndarray, words: int, first: Sequence[str]) -> np.ndarray:
    """The word of each number below `words`: `first`, then the words whose number is `numbers[codes[word]]`.

    "" for a number without a word.
    """
    texts = np.full(words, "", dtype=object)
    texts[: len(first)] = first
    for word, code in codes.items():
        if numbers[code] >= len(first):
            texts[numbers[code]] = word
    return texts.astype(str)


def split(text: str) -> list[str]:
    """Words and signs in small letters, as the Penn Treebank has them, but for one sign of all double quotes.

    Of what has been split so before it gives the same again.

    >>> split("Don't stop: it's 3.5 o'clock")
    ['do', "n't", 'stop', ':', 'it', "'s", '3.5', "o'clock"]
    """
    return [QUOTES.get(word, word) for word in TOKEN.findall(text.lower())]


def with_progress(items: Sequence[Item], text: str) -> Iterable[Item]:
    """The same items, with a progress bar if stderr is a terminal."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    return track(items, text, console=console, transient=True, disable=not console.is_terminal)
