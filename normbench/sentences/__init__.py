"""Evaluation of sentence vectors: relatedness on SICK, classification on MR, CR, SUBJ and MPQA, on the whole sets.

`evaluate` takes an encoder; `scored` a function that returns a row for each sentence of a set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from normbench.sentences import sets
from normbench.sentences.rows import encoded
from normbench.sentences.sets import ALL, Labelled

__all__ = ["ALL", "Labelled", "Scored", "evaluate", "scored"]

Encode = Callable[[list[str], bool], Any]


@dataclass(frozen=True)
class Scored:
    """The result of one set: a record, and the values per example of a metric that is their mean.

    `examples`: for `accuracy` (N,), 1 where a sentence was classified right while its part was tested, in the order of
    the set's file; for SICK (N,), the squared errors of the test pairs, whose mean is `mse`. `at_edge`: in how many
    parts the chosen C is the smallest or the largest candidate; None if C is fixed.
    """

    record: dict[str, Any]
    examples: dict[str, np.ndarray]
    at_edge: int | None = None


def evaluate(
    encode: Encode,
    folder: Path,
    nested: bool,
    names: Sequence[str] = ALL,
    of: str = "encode",
    read: Callable[[str, Path], Labelled] = sets.read,
) -> Iterator[Scored]:
    """`scored` for the vectors that `encode(sentences, eos)` gives, a row (D,) for each sentence in order.

    It is called once a set, for all its sentences but empty ones; `eos`, whether each is to end in an end of sentence,
    is True for SICK alone. `of` names the vectors in errors.
    """
    yield from scored(lambda given: encoded(encode, given, of), folder, nested, names, read)


def scored(
    vectors: Callable[[Labelled], Any],
    folder: Path,
    nested: bool,
    names: Sequence[str] = ALL,
    read: Callable[[str, Path], Labelled] = sets.read,
) -> Iterator[Scored]:
    """Of each set a record, its name as the `split`: of SICK `pearson`, `spearman`, `mse`; of the others `accuracy`,
    the mean over ten parts, and `accuracy_std`, its standard deviation over them.

    `vectors(set)` gives a row for each sentence in the order of its files, a numpy array or a scipy.sparse matrix.
    `nested`: C is chosen within each training part, else it is `folds.FIXED`. `folder` is that of the data sets.
    NormbenchError for a set that is not there, before any is computed.
    """
    from normbench.sentences import folds, relatedness

    for given in [read(name, folder) for name in names]:
        found = vectors(given)
        if given.name == sets.PAIRED:
            dense = found if isinstance(found, np.ndarray) else found.toarray()
            ends = np.cumsum([len(sentences) for sentences in given.sentences.values()])
            u_v = iter(np.split(dense, ends[:-1]))
            parts = [relatedness.pairs(next(u_v), next(u_v), scores) for scores in given.targets.values()]
            metrics, squared = relatedness.evaluate(*parts)
            yield Scored({"split": given.name, **metrics}, {"mse": squared})
        else:
            tested = folds.cross_validate(found, given.targets[given.name], nested)
            spread = float(tested.accuracies.std())
            record = {"split": given.name, "accuracy": tested.accuracy, "accuracy_std": spread}
            yield Scored(record, {"accuracy": tested.right}, tested.at_edge if nested else None)
