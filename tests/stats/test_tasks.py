"""Arms over several tasks, beside scipy's ranks, tests and intervals."""

import itertools
import math

import numpy as np
import pytest
import scipy.stats

from normbench.stats import tasks

ARMS = ("a", "b", "c", "d")


def random_scores(seed: int, equal: bool = False) -> dict[str, dict[str, list[float]]]:
    """Tasks of unequal units; rounded numbers are often equal, and some runs diverged. equal: as many runs of each."""
    rng = np.random.default_rng(seed)
    scores = {}
    for task in range(rng.integers(1, 6)):
        counts = [5] * len(ARMS) if equal else rng.integers(1, 9, len(ARMS))
        runs = (rng.normal(rng.normal(), 10.0 ** rng.integers(-3, 3), n).round(rng.integers(0, 4)) for n in counts)
        lost = (np.where(rng.random(len(numbers)) < 0.1, math.inf, numbers) for numbers in runs)
        scores[f"task {task}"] = dict(zip(ARMS, (numbers.tolist() for numbers in lost), strict=True))
    return scores


def test_the_probability_of_improvement_is_that_of_mann_and_whitney() -> None:
    for scores in map(random_scores, range(200)):
        for first, second in itertools.combinations(ARMS, 2):
            expected = []
            for arms in scores.values():
                x, y = ([min(number, 1e9) for number in arms[arm]] for arm in (first, second))
                expected.append(1 - scipy.stats.mannwhitneyu(x, y, method="asymptotic").statistic / (len(x) * len(y)))
            standing, back = tasks.standing(scores, first, [second]), tasks.standing(scores, second, [first])
            assert standing and back and standing.share == pytest.approx(np.mean(expected))
            assert standing.share + back.share == pytest.approx(1)
            assert standing.these == pytest.approx([1 - end for end in back.these[::-1]])
            assert standing.like_these == pytest.approx([1 - end for end in back.like_these[::-1]])


def test_average_ranks_are_those_of_one_run_of_each_arm() -> None:
    for scores in (random_scores(seed, equal=True) for seed in range(200)):
        for arm in ARMS:
            others = [other for other in ARMS if other != arm]
            expected = []
            for arms in scores.values():
                ranks = scipy.stats.rankdata(np.concatenate([arms[arm], *(arms[other] for other in others)]))
                # among all runs: 5 times as many others beat it, and of its own arm 2 on average
                expected.append((ranks[:5].mean() - 3) / 5 + 1)
            standing = tasks.standing(scores, arm, others)
            assert standing and standing.rank(standing.share) == pytest.approx(np.mean(expected))
            for interval in (standing.these, standing.like_these):
                low, high = standing.ranks(interval)
                assert (
                    1 <= low <= standing.rank(standing.share) + 1e-9
                    and standing.rank(standing.share) <= high + 1e-9 <= 5
                )


def test_a_diverged_run_is_last_and_never_helps() -> None:
    arm = [1.0, 2.0, 3.0, 4.0, 5.0]
    assert tasks.improvement(arm, [math.inf] * 5) == 1 and tasks.improvement([math.inf], [math.inf]) == 0.5
    for place in range(5):
        lost = [*arm[:place], math.inf, *arm[place + 1 :]]
        assert tasks.improvement(lost, [2.5, 3.5]) <= tasks.improvement(arm, [2.5, 3.5])


def test_a_task_without_one_of_them_is_left_out() -> None:
    scores = {"both": {"a": [1.0], "b": [2.0]}, "one": {"a": [1.0]}, "empty": {"a": [1.0], "b": []}}
    standing = tasks.standing(scores, "a", ["b"])
    assert standing and (standing.tasks, standing.share) == (1, 1.0)
    assert tasks.standing(scores, "a", ["c"]) is None


@pytest.mark.parametrize(("wins", "n"), [(0, 4), (3, 4), (4, 4), (5, 12), (12, 12)])
def test_of_wins_alone_the_intervals_are_those_of_a_coin(wins: int, n: int) -> None:
    shares = [1.0] * wins + [0.0] * (n - wins)
    for level in (0.9, 0.95):
        coin = scipy.stats.binomtest(wins, n)
        exact, wilson = coin.proportion_ci(level), coin.proportion_ci(level, "wilson")
        assert tasks.like_these(shares, level) == pytest.approx([exact.low, exact.high], abs=1e-9)
        assert tasks.these_tasks(shares, 1, level) == pytest.approx([wilson.low, wilson.high], abs=1e-9)
    assert tasks.these_tasks(shares, 5) == pytest.approx(
        [*scipy.stats.binomtest(5 * wins, 5 * n).proportion_ci(method="wilson")], abs=1e-9
    )


@pytest.mark.parametrize("values", [[0.0, 0.3, 0.9, 1.0], [0.0, 0.5, 0.5, 0.5], [0.0, 0.0, 1.0], [0.0, 0.2, 0.25, 0.7]])
def test_the_distribution_of_weighted_means_is_that_of_drawn_weights(values: list[float]) -> None:
    weights = np.random.default_rng(0).dirichlet([1] * len(values), 100_000)
    for limit in (-0.1, 0.05, 0.2, 0.4, 0.7, 1.1):
        assert tasks.below(values, limit) == pytest.approx(np.mean(weights @ values <= limit), abs=0.006)
