"""Nested evaluation of sentence vectors: python scripts/bench/sentences.py [--size N] [--threads N]

Seconds of each set's nested evaluation, with the vectors at hand: random bags of words of 2,400 numbers, as
skip-thoughts' vectors have, and MR at twice that; by the clock, and of all processors, which a busy machine changes
less. Then the solver against scikit-learn's lbfgs at `tol=1e-8`, the intercept penalized in both: for
the first of MR's ten outer parts, how many of its sentences are decided otherwise, how far the decisions w·z are apart
at most, and the seconds of a fit (ours from a start at 0, with the rotation). Needs the sets in NORMBENCH_DATA.
"""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

import harness
import numpy as np
import torch
from harness import Value
from sklearn.linear_model import LogisticRegression

from normbench import data, sentences
from normbench.sentences import folds, logistic, sets, yardsticks

MR_GOAL, ALL_GOAL = 90.0, 240.0  # s
SEED = 1
CHECKED = (1.0, 16.0, 256.0)  # C
Result = TypeVar("Result")


class Took(NamedTuple):
    """Seconds by the clock, and of all processors."""

    clock: float
    processors: float


def timed(function: Callable[[], Result]) -> tuple[Took, Result]:
    began = time.perf_counter(), time.process_time()
    result = function()
    return Took(time.perf_counter() - began[0], time.process_time() - began[1]), result


def vectors(name: str, folder: Path, size: int) -> np.ndarray:
    """Those of the set's sentences, without the empty ones."""
    sentences = [sentence for sentence in sets.read(name, folder).all if sentence]
    return np.asarray(yardsticks.bag_of_words(size, SEED)(sentences, False))


def evaluated(name: str, folder: Path, size: int) -> Took:
    """What one set's nested evaluation took."""
    made = vectors(name, folder, size)
    took, scores = timed(lambda: list(sentences.evaluate(lambda *_: made, folder, True, [name])))
    print(f"  {size} numbers: {scores[0].record}", flush=True)
    return took


def both(case: str, took: Took, goal: float | None = None) -> Iterator[Value]:
    yield Value(case, "s", took.clock, goal)
    yield Value(case, "CPU s", took.processors)


def against_scikit_learn(folder: Path, size: int) -> Iterator[Value]:
    x, y = vectors("mr", folder, size).astype(np.float64), sets.read("mr", folder).targets["mr"]
    part = np.array_split(folds.order(y), folds.PARTS)[0]
    train = np.ones((1, len(y)), bool)
    train[0, part] = False
    with_one = np.c_[x, np.ones(len(x))]

    def ours(cost: float) -> np.ndarray:
        given = logistic.rows(x)
        (decisions,) = logistic.decisions(given, torch.from_numpy(y), torch.from_numpy(train), [cost])
        return decisions[0].numpy()[part]

    def theirs(cost: float) -> np.ndarray:
        model = LogisticRegression(C=cost, tol=1e-8, max_iter=100_000, fit_intercept=False)
        decisions: np.ndarray = model.fit(with_one[train[0]], y[train[0]]).decision_function(with_one[part])
        return decisions

    for cost in CHECKED:
        where = f"MR, C = {cost:g}, against lbfgs at 1e-8"
        took, decisions = timed(functools.partial(ours, cost))
        reference, expected = timed(functools.partial(theirs, cost))
        yield Value(f"{where}: decided otherwise", f"of {len(part)}", float(((decisions > 0) != (expected > 0)).sum()))
        yield Value(f"{where}: decisions apart at most", "", float(np.abs(decisions - expected).max()))
        yield Value(f"{where}: one fit", "CPU s", took.processors, reference=reference.processors)


def values(folder: Path, size: int) -> Iterator[Value]:
    yield from against_scikit_learn(folder, size)
    total = Took(0, 0)
    for name in sets.CLASSIFIED:
        took = evaluated(name, folder, size)
        total = Took(*(a + b for a, b in zip(total, took, strict=True)))
        yield from both(f"{name.upper()}, {size} numbers, nested", took, MR_GOAL if name == "mr" else None)
    yield from both(f"MR, CR, SUBJ and MPQA, {size} numbers, nested", total, ALL_GOAL)
    yield from both(f"SICK, {size} numbers", evaluated(sets.PAIRED, folder, size))
    yield from both(f"MR, {2 * size} numbers, nested", evaluated("mr", folder, 2 * size))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=2400, help="numbers of a vector")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--output", type=Path, default=harness.RESULTS)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    results = []
    for value in values(data.root(), given.size):
        results.append(value)
        goal = "" if value.goal is None else f"  goal ≤ {value.goal:g}: {value.met}"
        print(f"{value.case:<52} {value.value:10.3g} {value.unit}{goal}", flush=True)
    words = [f"--{name} {getattr(given, name)}" for name in ("size", "threads")
             if getattr(given, name) != parser.get_default(name)]  # fmt: skip
    command = " ".join(["python scripts/bench/sentences.py", *words])
    note = (
        f"{given.threads} threads; the goals are of two quiet cores by the clock. The vectors are random bags of words."
    )
    harness.publish_values(
        "sentences", "Sentence vectors: nested evaluation", note, "scikit-learn", command, results, given.output
    )


if __name__ == "__main__":
    main()
