"""Nested cross-validation as the code of skip-thoughts runs it: loops over parts and C, scikit-learn for each fit."""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import LogisticRegression


def fitted(x: np.ndarray, y: np.ndarray, cost: float) -> LogisticRegression:
    """scikit-learn's lbfgs where it has converged; an intercept that is penalized is a column of 1."""
    model = LogisticRegression(C=cost, tol=1e-8, max_iter=100_000, fit_intercept=False)
    return model.fit(np.c_[x, np.ones(len(x))], y)


def decisions(x: np.ndarray, y: np.ndarray, train: np.ndarray, cost: float) -> np.ndarray:
    """What a model of the rows `train` says of all rows."""
    found = fitted(x[train], y[train], cost)
    return found.decision_function(np.c_[x, np.ones(len(x))])


def parts(count: int, k: int = 10) -> list[np.ndarray]:
    """The test rows of scikit-learn's old KFold without shuffling."""
    sizes = [count // k + (i < count % k) for i in range(k)]
    return [np.arange(sum(sizes[:i]), sum(sizes[: i + 1])) for i in range(k)]


def nested(x: np.ndarray, y: np.ndarray, costs: tuple[float, ...]) -> tuple[list[float], list[float]]:
    """Accuracy and C of each outer part; the rows are those of label 1, then 0, shuffled."""
    rows = np.concatenate([np.flatnonzero(y == 1), np.flatnonzero(y == 0)])
    places = np.arange(len(y))
    np.random.RandomState(1234).shuffle(places)
    x, y = x[rows][places], y[rows][places]
    accuracies, chosen = [], []
    for test in parts(len(y)):
        train = np.setdiff1d(np.arange(len(y)), test)
        means = []
        for cost in costs:
            scores = []
            for held in parts(len(train)):
                kept = np.setdiff1d(np.arange(len(train)), held)
                told = decisions(x[train], y[train], kept, cost)[held] > 0
                scores.append(np.mean(told == y[train][held]))
            means.append(np.mean(scores))
        chosen.append(costs[int(np.argmax(means))])
        accuracies.append(float(np.mean((decisions(x, y, train, chosen[-1])[test] > 0) == y[test])))
    return accuracies, chosen
