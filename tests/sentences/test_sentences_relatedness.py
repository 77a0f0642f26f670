"""SICK's softmax regression against torch's own pieces, and its rule of stopping."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from normbench.sentences import relatedness
from normbench.sentences.sets import NotFinite


def made(count: int, size: int = 4) -> relatedness.Pairs:
    draw = np.random.default_rng(count)
    u, v = draw.standard_normal((2, count, size))
    return relatedness.pairs(u, v, np.clip(3 - np.abs(u - v)[:, 0] + np.abs(u * v)[:, 1], 1, 5).round(1))


def test_scores_are_distributions_with_that_mean() -> None:
    found = relatedness.distributions(np.array([1.0, 3.2, 4.75, 5.0])).numpy()
    expected = [[1, 0, 0, 0, 0], [0, 0, 0.8, 0.2, 0], [0, 0, 0, 0.25, 0.75], [0, 0, 0, 0, 1]]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_features_are_the_distance_and_the_product() -> None:
    found = relatedness.pairs(np.array([[1.0, -2.0]]), np.array([[3.0, 5.0]]), np.array([2.0]))
    assert found.features.tolist() == [[2.0, 7.0, 3.0, -10.0, 1.0]]


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("length", [1e10, 1e19, 1e25, 1e38])
def test_vectors_too_long_for_float32_are_one_line(length: float, kind: type) -> None:
    """Adam squares a gradient, which may be as large as a feature."""
    u = np.full((2, 3), length, kind)
    with pytest.raises(NotFinite, match=r"^SICK: the vectors are too long for float32\. Give them a"):
        relatedness.pairs(u, 2 * u, np.array([1.0, 2.0]))


def test_long_vectors_that_fit_are_learned_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relatedness, "EPOCHS", 3)
    draw = np.random.default_rng(1)
    u, v = 1e9 * draw.standard_normal((2, 60, 3))
    given = relatedness.pairs(u, v, np.clip(3 + np.sign(u * v)[:, 0], 1, 5))
    found, _ = relatedness.evaluate(given, given, given)
    assert found["pearson"] > 0.5 and np.isfinite(found["mse"])


def test_training_is_adam_on_the_cross_entropy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relatedness, "EPOCHS", 3)
    given, targets = made(150).features, relatedness.distributions(made(150).scores)
    model = relatedness._Softmax(given, targets)
    model.fit()
    layer = torch.nn.Linear(given.shape[1], 5, bias=False)
    torch.nn.init.zeros_(layer.weight)
    optimizer = torch.optim.Adam(layer.parameters(), lr=1e-3, eps=1e-8)
    for _ in range(3):
        for rows in (slice(0, 128), slice(128, 150)):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(layer(given[rows]), targets[rows]).backward()
            optimizer.step()
    torch.testing.assert_close(model.weights, layer.weight.detach(), rtol=1e-4, atol=1e-6)


def test_it_stops_where_the_trial_part_is_no_better_and_goes_one_look_back(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter([0.1, 0.3, 0.3])
    fits: list[torch.Tensor] = []
    fit = relatedness._Softmax.fit
    real = relatedness.pearson
    monkeypatch.setattr(relatedness, "EPOCHS", 2)
    monkeypatch.setattr(relatedness._Softmax, "fit", lambda self: (fit(self), fits.append(self.weights.clone())))
    monkeypatch.setattr(relatedness, "pearson", lambda a, b: next(looks, None) or real(a, b))
    test = made(30)
    found, squared = relatedness.evaluate(made(140), made(20), test)
    assert len(fits) == 3
    predictions = relatedness.predicted(fits[1], test.features)
    np.testing.assert_array_equal(squared, (predictions - test.scores) ** 2)
    assert found["mse"] == squared.mean()
    assert found["pearson"] == pytest.approx(stats.pearsonr(predictions, test.scores)[0])
    assert found["spearman"] == pytest.approx(stats.spearmanr(predictions, test.scores)[0])


def test_constant_predictions_are_not_correlated() -> None:
    assert relatedness.pearson(np.ones(4), np.arange(4.0)) == 0.0
    scores = np.array([1.0, 2.5, 4.0])
    nothing = relatedness.pairs(np.zeros((3, 2)), np.zeros((3, 2)), scores)
    assert relatedness.evaluate(nothing, nothing, nothing)[0]["pearson"] == 0.0


def test_threads_are_as_they_were() -> None:
    torch.set_num_threads(2)
    with relatedness.one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2
