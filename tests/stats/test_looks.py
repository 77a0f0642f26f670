"""The levels of planned looks beside published bounds, a simulated Brownian motion, and what Holm needs of them."""

import numpy as np
import pytest
from scipy.stats import norm

from normbench.stats.looks import FOR_T, SPENDINGS, level_at, levels


@pytest.mark.parametrize(
    ("spending", "looks", "bounds"),
    [  # at equal steps, two-sided 5 %: the vignette of R's ldbounds; gsDesign's sfLDOF and sfLDPocock
        ("obrien-fleming", (1, 2), (2.9626, 1.9686)),
        ("obrien-fleming", (1, 2, 3), (3.7103, 2.5114, 1.9930)),
        ("obrien-fleming", (1, 2, 3, 4, 5), (4.8769, 3.3569, 2.6803, 2.2898, 2.0310)),
        ("pocock", (1, 2, 3, 4, 5), (2.4380, 2.4268, 2.4101, 2.3966, 2.3859)),
    ],
)
def test_levels_are_those_of_published_bounds(spending: str, looks: tuple[int, ...], bounds: tuple[float, ...]) -> None:
    assert norm.isf(np.array(levels(looks, 0.05, spending)) / 2) == pytest.approx(bounds, abs=2e-4)


@pytest.mark.parametrize("spending", SPENDINGS)
@pytest.mark.parametrize("looks", [(5, 10, 20), (6, 8, 10, 12), (5, 20)])
def test_a_brownian_motion_crosses_as_often_as_is_spent(spending: str, looks: tuple[int, ...]) -> None:
    rng, level, paths = np.random.default_rng(1), 0.2, 400_000
    steps = rng.standard_normal((paths, len(looks))) * np.sqrt(np.diff(looks, prepend=0))
    p = 2 * norm.sf(np.abs(steps.cumsum(axis=1)) / np.sqrt(looks))
    crossed = np.maximum.accumulate(p <= levels(looks, level, spending), axis=1).mean(axis=0)
    expected = [SPENDINGS[spending](level, n / looks[-1]) for n in looks]
    assert expected[-1] == pytest.approx(level)
    assert crossed == pytest.approx(expected, abs=4 * np.sqrt(level * (1 - level) / paths))


@pytest.mark.parametrize("spending", SPENDINGS)
@pytest.mark.parametrize("last", [2000, 10**6])
@pytest.mark.parametrize("level", [0.05, 0.001])
def test_an_early_look_leaves_the_last_nearly_all(spending: str, last: int, level: float) -> None:
    first, at_last = levels((5, last), level, spending)
    assert first + at_last == pytest.approx(level, rel=0.01) and first <= SPENDINGS[spending](level, 5 / last) + 1e-12


@pytest.mark.parametrize("spending", SPENDINGS)
@pytest.mark.parametrize("looks", [(5, 10, 20), (6, 8, 10, 12), tuple(range(5, 21))])
def test_a_smaller_level_is_smaller_at_each_look(spending: str, looks: tuple[int, ...]) -> None:
    """Else Holm's steps would not keep their level over several looks."""
    tables = np.array([levels(looks, level, spending) for level in (0.05, 0.05 / 2, 0.05 / 3, 0.05 / 30, 1e-6)])
    assert (np.diff(tables, axis=0) < 0).all()
    assert level_at(looks[-1], looks, 0.05, spending) == levels(looks, FOR_T * 0.05, spending)[-1] < 0.05
