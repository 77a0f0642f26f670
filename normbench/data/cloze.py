"""The format of all sets of cloze questions: a document, a question with a blank, and the entity that fills it.

Word numbers: END (padding) and UNKNOWN (a rarer word) of `words`, BLANK (of the question), then the entities from
ENTITY on, then the words, most frequent first. The numbers of entities carry no information.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np
import torch

from normbench.data import words as of_words
from normbench.data.array_cache import Arrays
from normbench.data.examples import Ragged, Split

BLANK, ENTITY = 2, 3
FIRST = ("<end>", "<unknown>", "<blank>")
TEXTS = ("document", "question")
Item = TypeVar("Item")


def words_by_number(codes: Mapping[str, int], numbers: np.ndarray, entities: int, words: int) -> np.ndarray:
    """The word of each number below `words`, as `words.words_by_number`."""
    return of_words.words_by_number(codes, numbers, words, [*FIRST, *(f"@entity{i}" for i in range(entities))])


def packed(part: str, texts: dict[str, list[np.ndarray]], answers: Sequence[int]) -> Arrays:
    """Questions of a part as arrays for the cache: all texts of a kind one after another, and their lengths."""
    arrays = {f"{part}_answer": np.array(answers, np.int32)}
    for kind in TEXTS:
        arrays[f"{part}_{kind}"] = np.concatenate([*texts[kind], np.zeros(0, np.int32)]).astype(np.int32)
        arrays[f"{part}_{kind}_length"] = np.array(list(map(len, texts[kind])), np.int32)
    return arrays


def split(arrays: Arrays, part: str, count: int) -> Split:
    """So many questions of a part, spread evenly over it."""
    rows = torch.arange(count) * len(arrays[f"{part}_answer"]) // count

    def texts(kind: str) -> Ragged:
        ends = arrays[f"{part}_{kind}_length"].cumsum(dtype=np.int64)
        offsets = torch.from_numpy(np.concatenate([np.zeros(1, np.int64), ends]))
        chosen = Ragged(torch.from_numpy(arrays[f"{part}_{kind}"]), offsets)[rows]
        return Ragged(chosen.values.long(), chosen.offsets)

    answer = torch.from_numpy(arrays[f"{part}_answer"])[rows].long()
    return Split(document=texts("document"), question=texts("question"), answer=answer, index=rows)


def with_progress(items: Sequence[Item], text: str) -> Iterable[Item]:
    """The same items, with a progress bar if stderr is a terminal."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    return track(items, text, console=console, transient=True, disable=not console.is_terminal)
