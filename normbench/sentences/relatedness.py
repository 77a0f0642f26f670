"""SICK: how related two sentences are, from 1 to 5, read off their vectors as the code of skip-thoughts does.

Features of a pair are |u - v| and u ⊙ v, one after the other. A score y becomes a distribution over 1 to 5, the mass
y - ⌊y⌋ on ⌊y⌋ + 1 and the rest on ⌊y⌋; softmax regression is trained on it by Adam (lr 1e-3, minibatches of 128 in one
order, shuffled once, float32), and the prediction is the mean of its distribution. After every 100 epochs Pearson's r
on the trial part is looked at; at the first that is no higher training ends, and the weights before it are taken.

Not the same: it begins with zeros in the place of Keras' small random weights, so that nothing is drawn.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from normbench.sentences.sets import NotFinite

SCORES = 5
EPOCHS, BATCH = 100, 128  # Keras' defaults of the time: epochs of one `fit`, rows of a minibatch
RATE, BETAS, EPS = 1e-3, (0.9, 0.999), 1e-8
SEED = 1234  # of the authors
LOOKS = 100  # at most, where r on the trial part rises by less and less


class Pairs(NamedTuple):
    """Features (N, 2 D + 1) of sentence pairs, the last one 1, and their scores (N,)."""

    features: Tensor
    scores: np.ndarray


def pairs(u: np.ndarray, v: np.ndarray, scores: np.ndarray) -> Pairs:
    """Of the vectors (N, D) of either side. NotFinite where Adam could not square a gradient of such a feature."""
    with np.errstate(over="ignore"):
        features = np.hstack([np.abs(u - v), u * v, np.ones((len(u), 1))]).astype(np.float32)
        if not np.isfinite(np.square(features)).all():
            raise NotFinite("SICK: the vectors are too long for float32. Give them a length such as 1.")
    return Pairs(torch.from_numpy(features), scores)


def evaluate(train: Pairs, trial: Pairs, test: Pairs) -> tuple[dict[str, float], np.ndarray]:
    """Pearson's r, Spearman's ρ and the mean squared error on the test part; each test pair's squared error."""
    order = np.arange(len(train.scores))
    np.random.RandomState(SEED).shuffle(order)  # numpy's old generator, whose draws are frozen
    model = _Softmax(train.features[order], distributions(train.scores[order]))
    best, weights = -np.inf, model.weights.clone()
    with one_thread():
        for _ in range(LOOKS):
            model.fit()
            correlation = pearson(predicted(model.weights, trial.features), trial.scores)
            if not correlation > best:
                break
            best, weights = correlation, model.weights.clone()
    scores = predicted(weights, test.features)
    squared = (scores - test.scores) ** 2
    correlations = {"pearson": pearson(scores, test.scores), "spearman": spearman(scores, test.scores)}
    return {**correlations, "mse": float(np.mean(squared))}, squared


@contextmanager
def one_thread() -> Iterator[None]:
    """Minibatches are too small for more: threads would wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def distributions(scores: np.ndarray) -> Tensor:
    """(N, 5): of 3.2 it is 0.8 on 3 and 0.2 on 4."""
    distance = np.abs(scores[:, None] - np.arange(1, SCORES + 1))
    return torch.from_numpy(np.clip(1 - distance, 0, None).astype(np.float32))


def predicted(weights: Tensor, features: Tensor) -> np.ndarray:
    """The mean Σ k p_k of each pair's distribution, (N,) float64."""
    p = torch.softmax(features @ weights.T, 1).double()
    means: np.ndarray = (p @ torch.arange(1, SCORES + 1, dtype=p.dtype)).numpy()
    return means


def pearson(a: np.ndarray, b: np.ndarray) -> float:
    """The correlation; 0 where one of them is constant."""
    a, b = a - a.mean(), b - b.mean()
    length = np.sqrt((a @ a) * (b @ b))
    return float(a @ b / length) if length > 0 else 0.0


def spearman(a: np.ndarray, b: np.ndarray) -> float:
    """The correlation of the ranks, those of equals their mean."""
    from scipy.stats import rankdata

    return pearson(rankdata(a), rankdata(b))


class _Softmax:
    """Softmax regression under Adam; `weights` (5, features), of which the last are the biases."""

    def __init__(self, features: Tensor, targets: Tensor) -> None:
        self.batches = list(zip(features.split(BATCH), targets.split(BATCH), strict=True))
        self.weights = features.new_zeros(SCORES, features.shape[1])
        self.m, self.v, self.step = torch.zeros_like(self.weights), torch.zeros_like(self.weights), 0

    def fit(self) -> None:
        """So many epochs more, on the mean cross-entropy of each minibatch."""
        gradient = torch.empty_like(self.weights)
        for _ in range(EPOCHS):
            for x, y in self.batches:
                by_logits = torch.softmax(x @ self.weights.T, 1).sub_(y).div_(len(x))
                self._adam(torch.mm(by_logits.T, x, out=gradient))

    def _adam(self, gradient: Tensor) -> None:
        """Kingma and Ba's second form, as Keras has it: ε stands beside a √v that is not corrected for its bias."""
        self.step += 1
        rate = RATE * (1 - BETAS[1] ** self.step) ** 0.5 / (1 - BETAS[0] ** self.step)
        self.m.lerp_(gradient, 1 - BETAS[0])
        self.v.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
        self.weights.addcdiv_(self.m, self.v.sqrt().add_(EPS), value=-rate)
