"""Evaluation of sentence vectors: relatedness on SICK, classification on MR, CR, SUBJ and MPQA, on the whole sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from normbench.sentences import sets
from normbench.sentences.sets import ALL, encoded

__all__ = ["ALL", "Scored", "evaluate"]

Encode = Callable[[list[str], bool], Any]


@dataclass(frozen=True)
class Scored:
    """The result of one set: a record, and the values per example of a metric that is their mean.

    `examples`: for `accuracy` (N,), 1 where a sentence was classified right while its part was tested, in the order of
    the set's file; for SICK (N,), the squared errors of the test pairs, whose mean is `mse`.
    """

    record: dict[str, Any]
    examples: dict[str, np.ndarray]


def evaluate(
    encode: Encode, folder: Path, nested: bool, names: Sequence[str] = ALL, of: str = "encode"
) -> Iterator[Scored]:
    """Of each set a record, its name as the `split`: of SICK `pearson`, `spearman`, `mse`; of the others `accuracy`,
    the mean over ten parts, and `accuracy_std`, its standard deviation over them.

    `encode(sentences, eos)` gives a row (D,) for each sentence in order, as a numpy array or a scipy.sparse matrix. It
    is called once a set, for all its sentences but empty ones; `eos`, whether each is to end in an end of sentence, is
    True for SICK alone. `folder` has the sets. `nested`: C is chosen within each training part, else it is
    `folds.FIXED`. `of` names the vectors in errors.
    """
    from normbench.sentences import folds, relatedness

    for labelled in [sets.read(name, folder) for name in names]:
        vectors = encoded(encode, labelled, of)
        if labelled.name == sets.PAIRED:
            dense = vectors if isinstance(vectors, np.ndarray) else vectors.toarray()
            ends = np.cumsum([len(sentences) for sentences in labelled.sentences.values()])
            u_v = iter(np.split(dense, ends[:-1]))
            parts = [relatedness.pairs(next(u_v), next(u_v), scores) for scores in labelled.targets.values()]
            metrics, squared = relatedness.evaluate(*parts)
            yield Scored({"split": labelled.name, **metrics}, {"mse": squared})
        else:
            tested = folds.cross_validate(vectors, labelled.targets[labelled.name], nested)
            spread = float(tested.accuracies.std())
            record = {"split": labelled.name, "accuracy": tested.accuracy, "accuracy_std": spread}
            yield Scored(record, {"accuracy": tested.right})
