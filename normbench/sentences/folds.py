"""Nested cross-validation, as the code of skip-thoughts has it.

The rows are put into one order (`order`), and cut into ten contiguous parts. Each part is tested in turn on a
classifier that is trained on the other nine, with the C that does best in ten contiguous parts of these nine: of
2⁰ to 2⁸ the one of the highest mean accuracy, the smallest of equals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from normbench.sentences import logistic

PARTS = 10
COSTS = tuple(2.0**power for power in range(9))
FIXED = 16.0  # C if none is chosen, the middle of these
SEED = 1234  # of the authors


@dataclass(frozen=True)
class Tested:
    """The result: accuracy and chosen C of each outer part, and whether each row was classified right."""

    accuracies: np.ndarray  # (PARTS,)
    costs: np.ndarray  # (PARTS,)
    right: np.ndarray  # (N,) bool, in the order of the rows as they were given

    @property
    def accuracy(self) -> float:
        return float(self.accuracies.mean())


def order(labels: np.ndarray) -> np.ndarray:
    """The order before the cuts: rows of label 1, then 0, as the sets' own files have them, shuffled with SEED.

    numpy's old generator, whose draws are frozen: the same rows in every version.
    """
    places = np.arange(len(labels))
    np.random.RandomState(SEED).shuffle(places)
    shuffled: np.ndarray = np.argsort(-labels, kind="stable")[places]
    return shuffled


def cross_validate(vectors: Any, labels: np.ndarray, nested: bool) -> Tested:
    """Of vectors (N, D), dense or sparse, and labels (N,) of 0 and 1; not `nested`: with C = FIXED in every part."""
    outer = np.array_split(order(labels), PARTS)
    held = [[part] for part in outer]
    if nested:
        for k, part in enumerate(outer):
            others = np.concatenate(outer[:k] + outer[k + 1 :])
            held += [[part, inner] for inner in np.array_split(others, PARTS)]
    train = torch.ones(len(held), len(labels), dtype=torch.bool)
    for problem, parts in zip(train, held, strict=True):
        problem[np.concatenate(parts)] = False
    costs = COSTS if nested else (FIXED,)
    decisions = logistic.decisions(logistic.rows(vectors), torch.from_numpy(labels), train, costs)
    right = np.stack([(a > 0).numpy() == labels.astype(bool) for a in decisions])  # (C, problems, N)
    chosen = [_best(right, held, k) if nested else 0 for k in range(PARTS)]
    hits = np.zeros(len(labels), bool)
    for k, part in enumerate(outer):
        hits[part] = right[chosen[k], k, part]
    accuracies = np.array([hits[part].mean() for part in outer])
    return Tested(accuracies, np.array([costs[c] for c in chosen]), hits)


def _best(right: np.ndarray, held: Sequence[Sequence[np.ndarray]], k: int) -> int:
    """The place of the C with the highest mean accuracy in the inner parts of outer part k."""
    problems = range(PARTS * (k + 1), PARTS * (k + 2))
    return int(np.argmax(np.mean([right[:, problem, held[problem][1]].mean(1) for problem in problems], axis=0)))
