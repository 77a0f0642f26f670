"""The solver against scikit-learn where that has converged, and against the equation that a solution fulfils."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from reference import nested as reference
from scipy import sparse

from normbench.errors import NormbenchError
from normbench.sentences import folds, logistic

COSTS = (0.3, 2.0, 16.0, 256.0)


def problem(rows: int, columns: int, length: float = 1.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Vectors of unequal directions, labels that they half tell, and rows to train on for three problems."""
    draw = np.random.default_rng(rows + columns)
    x = draw.standard_normal((rows, columns)) * np.linspace(0.1, 2, columns) + 0.5
    x *= length / np.linalg.norm(x, axis=1, keepdims=True)
    y = (x @ draw.standard_normal(columns) / length + 0.5 * draw.standard_normal(rows) > 0.2).astype(np.int64)
    train = np.ones((3, rows), bool)
    train[1, : rows // 3] = train[2, rows // 2 :] = False
    return x, y, train


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize(("rows", "columns", "length"), [(150, 12, 1.0), (40, 70, 1.0), (120, 9, 30.0)])
def test_it_is_what_scikit_learn_converges_to(rows: int, columns: int, length: float, form) -> None:
    x, y, train = problem(rows, columns, length)
    found = logistic.decisions(logistic.rows(form(x)), torch.from_numpy(y), torch.from_numpy(train), COSTS)
    for cost, values in zip(COSTS, found, strict=True):
        for k in range(len(train)):
            expected = reference.decisions(x, y, train[k], cost)
            np.testing.assert_allclose(values[k].numpy(), expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(("rows", "columns"), [(200, 20), (60, 90)])
def test_the_gradient_is_as_small_as_promised(rows: int, columns: int) -> None:
    """∇f = w - C Σ train (t - p) z = 0: decisions are C z Σ train (t - p) z, up to |z| times the gradient."""
    x, y, train = problem(rows, columns)
    z = np.c_[x, np.ones(rows)]
    found = logistic.decisions(logistic.rows(x), torch.from_numpy(y), torch.from_numpy(train), COSTS)
    for cost, values in zip(COSTS, found, strict=True):
        a = values.numpy()
        solved = cost * (train * (y - 1 / (1 + np.exp(-a)))) @ z @ z.T
        assert np.abs(a - solved).max() <= np.sqrt(2) * logistic.GRADIENT


def test_the_start_does_not_matter() -> None:
    """Far off, where every p is 0 or 1, a whole step of Newton's leads farther away."""
    x, y, train = (torch.from_numpy(part) for part in problem(100, 8))
    given = logistic.rows(x.numpy())
    far = 100 * torch.randn(3, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    (expected,) = logistic.decisions(given, y, train, [8.0])
    found = logistic._solve(given, y.double(), train, 8.0, logistic._State(far, given.exact.decisions(far)))
    torch.testing.assert_close(found.a, expected, rtol=0, atol=3e-6)


def test_a_problem_that_cannot_be_solved_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, train = problem(50, 5)
    monkeypatch.setattr(logistic, "STEPS", 1)
    with pytest.raises(NormbenchError, match=r"C = 0\.3 is not solved after 1 steps"):
        list(logistic.decisions(logistic.rows(x), torch.from_numpy(y), torch.from_numpy(train), COSTS))
    for form in (np.asarray, sparse.csr_matrix):  # whose gradient would be small beside an infinite length
        with pytest.raises(NormbenchError, match="too long for float64"):
            logistic.rows(form(x * 1e200))


def test_nested_cross_validation_is_that_of_loops_over_parts() -> None:
    x, y, _ = problem(83, 6)
    y = np.where(np.arange(83) % 4 == 0, 1 - y, y)  # so that no C is always the best
    accuracies, costs = reference.nested(x, y, COSTS[2:])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(folds, "COSTS", COSTS[2:])
        found = folds.cross_validate(x, y, nested=True)
    assert len(set(costs)) > 1, "any choice would do"
    assert found.costs.tolist() == costs
    np.testing.assert_allclose(found.accuracies, accuracies)
    assert found.accuracy == np.mean(accuracies)
    assert found.right.sum() == round(sum(a * len(p) for a, p in zip(accuracies, reference.parts(83), strict=True)))


def test_a_fixed_c_is_that_of_the_outer_parts_alone() -> None:
    x, y, _ = problem(60, 4)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(folds, "COSTS", (folds.FIXED,))
        nested = folds.cross_validate(x, y, nested=True)
    found = folds.cross_validate(x, y, nested=False)
    assert found.accuracies.tolist() == nested.accuracies.tolist() and found.costs.tolist() == [folds.FIXED] * 10


def test_the_order_of_the_rows_is_pinned() -> None:
    """Another order is another test: published numbers would not compare."""
    labels = np.array([0, 1, 1, 0, 1, 0, 0, 1, 1, 1, 0, 0])
    assert folds.order(labels).tolist() == [3, 5, 11, 4, 6, 10, 2, 1, 8, 9, 0, 7]
