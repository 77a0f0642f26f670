"""Every interval is simulated: what it is said to cover, it covers."""

import math
from itertools import product

import numpy as np
import pytest
import scipy.special
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from normbench.stats import statistics as stats

REPEATS = 8000
SEEDS = (3, 5, 10, 20)


def samples(n: int, *, seed: int = 0, mean: float = 0.0, sd: float = 1.0) -> list[list[float]]:
    draws = np.random.default_rng([seed, n]).normal(mean, sd, size=(REPEATS, n))
    return [[float(value) for value in row] for row in draws]


def assert_rate(hits: int, nominal: float, below: float = 0.0, above: float = 0.0) -> None:
    """The rate lies within 4 binomial standard errors of nominal, plus an allowance for an approximate method."""
    band = 4 * math.sqrt(nominal * (1 - nominal) / REPEATS)
    assert nominal - band - below <= hits / REPEATS <= nominal + band + above


def covers(interval: stats.Interval | None, value: float) -> bool:
    assert interval is not None
    return interval[0] <= value <= interval[1]


@pytest.mark.slow
@pytest.mark.parametrize("n", SEEDS)
@pytest.mark.parametrize("level", [0.95, 0.975, 1 - 0.05 / 6])
def test_paired_t_interval_covers_its_level(n: int, level: float) -> None:
    common, noise = samples(n, seed=1, sd=3.0), samples(n, seed=2)
    hits = 0
    for shared, own in zip(common, noise, strict=True):
        first = [base + 0.7 + part for base, part in zip(shared, own, strict=True)]
        effects = [a - b for a, b in zip(first, shared, strict=True)]
        hits += covers(stats.t_interval(effects, level).interval, 0.7)
    assert_rate(hits, level)


@pytest.mark.parametrize("n", [6, 10, 20])
def test_median_interval_covers_the_median_of_a_skewed_effect_with_its_exact_probability(n: int) -> None:
    rows = [[math.exp(2 * value) for value in row] for row in samples(n, seed=12)]  # its mean is e² times as large
    outside = max(k for k in range(n // 2) if stats.sign_test(n - k, k) <= 0.05)
    exact = 1 - stats.sign_test(n - outside, outside)
    assert exact >= 0.95
    assert_rate(sum(covers(stats.median_interval(row, row), 1.0) for row in rows), exact)


def test_median_interval_lies_between_two_order_statistics_and_is_as_wide_as_what_is_not_known() -> None:
    values = [5.0, 1.0, 4.0, 2.0, 6.0, 3.0]
    assert stats.median_interval(values, values) == (1.0, 6.0)
    assert stats.median_interval(values[:5], values[:5]) is stats.median_interval(values, values, 0.975) is None
    assert stats.median_interval(range(20), range(20)) == (5, 14), "of 21 gaps the middle ones: 5 and 5 lie outside"
    assert stats.median_interval([-math.inf, *values[1:]], values) == (-math.inf, 6.0)
    assert stats.median_interval(values, [math.inf, *values[1:]]) == (1.0, math.inf)


@pytest.mark.thinned(1)
@pytest.mark.parametrize("n", SEEDS)
@pytest.mark.parametrize("spread", [1.0, 3.0])
def test_welch_interval_covers_with_equal_and_unequal_spread(n: int, spread: float) -> None:
    pairs = zip(samples(n, seed=4, mean=2.0), samples(n, seed=5, sd=spread), strict=True)
    hits = sum(covers(stats.welch(first, second).interval, 2.0) for first, second in pairs)
    # Welch's degrees of freedom are an approximation: cautious for few equal groups, a little bold for unequal ones.
    assert_rate(hits, 0.95, below=0.015 if n == 3 else 0.005, above=0.02 if n == 3 else 0.008)


@pytest.mark.parametrize("n", SEEDS)
def test_prediction_interval_covers_one_further_run(n: int) -> None:
    rows = samples(n + 1, seed=6, mean=-1.0, sd=0.2)
    assert_rate(sum(covers(stats.prediction_interval(row[:-1]), row[-1]) for row in rows), 0.95)


@pytest.mark.parametrize("n", SEEDS)
@pytest.mark.parametrize("side", [1, -1])
def test_equivalence_is_claimed_at_most_five_times_in_a_hundred_when_the_effect_equals_the_margin(
    n: int, side: int
) -> None:
    # A margin of many standard errors: the other one-sided test never fails, so the size is 5 % exactly.
    wrong = sum(
        stats.within(stats.t_interval(row, 0.9).interval, 10.0) for row in samples(n, seed=7, mean=10.0 * side, sd=0.5)
    )
    assert_rate(wrong, 0.05)


@pytest.mark.parametrize("n", SEEDS)
def test_equivalence_with_a_narrow_margin_stays_below_its_size(n: int) -> None:
    assert (
        sum(stats.within(stats.t_interval(row, 0.9).interval, 0.5) for row in samples(n, seed=8, mean=0.5)) / REPEATS
        <= 0.05
    )


def test_equivalence_is_the_ninety_percent_interval_inside_the_margin() -> None:
    values = [0.1, -0.2, 0.3, 0.0, 0.15]
    low, high = stats.t_interval(values, 0.9).interval or (0.0, 0.0)
    assert 0 < -low < high
    assert stats.within((low, high), high * 1.001) is True
    assert stats.within((low, high), high * 0.999) is False
    assert stats.within((-high, -low), high * 0.999) is False


@pytest.mark.parametrize("n", [5, 6, 10, 20])
def test_sign_test_rejects_at_most_as_often_as_its_exact_size(n: int) -> None:
    counts = [sum(value > 0 for value in row) for row in samples(n, seed=9)]
    size = sum(math.comb(n, k) for k in range(n + 1) if stats.sign_test(k, n - k) <= 0.05) / 2**n
    assert size <= 0.05
    assert_rate(sum(stats.sign_test(k, n - k) <= 0.05 for k in counts), size)


def test_sign_test_values() -> None:
    assert stats.sign_test(5, 0) == 0.0625  # five pairs can never decide at 5 %
    assert stats.sign_test(0, 6) == stats.sign_test(6, 0) == 0.03125
    assert stats.sign_test(9, 1) == pytest.approx(22 / 1024)
    assert stats.sign_test(3, 3) == stats.sign_test(0, 0) == 1.0


@given(st.lists(st.integers(-4, 4), max_size=9))
def test_signed_rank_is_the_share_of_signs_that_rank_as_far_apart(effects: list[int]) -> None:
    """By hand, over all signs: with equal sizes and zeros, which scipy's exact test does not take."""
    effects = [effect for effect in effects if effect]
    ranks = scipy.stats.rankdata(np.abs(effects)) if effects else np.zeros(0)

    def smaller(above: np.ndarray) -> float:
        return min(ranks[above].sum(), ranks[~above].sum())

    ways = [smaller(np.array(signs, bool)) for signs in product((False, True), repeat=len(effects))]
    own = smaller(np.array(effects) > 0)
    assert stats.signed_rank(effects) == pytest.approx(np.mean([way <= own for way in ways]))


@given(st.lists(st.floats(-9, 9, allow_subnormal=False), min_size=1, max_size=25, unique_by=abs))
def test_signed_rank_agrees_with_scipy_where_all_sizes_differ(effects: list[float]) -> None:
    effects = [effect for effect in effects if effect] or [1.0]
    assert stats.signed_rank(effects) == pytest.approx(scipy.stats.wilcoxon(effects, method="exact").pvalue)


def test_signed_rank_values() -> None:
    assert stats.signed_rank([1, 2, 3, 4, 5]) == 0.0625  # as the sign test: the least that five pairs can have
    assert stats.signed_rank([-1, 2, 3, 4, 5, 6]) == 0.0625
    assert stats.signed_rank([]) == stats.signed_rank([0.0]) == 1.0


@pytest.mark.parametrize(("n", "expected"), [(3, 3.3), (5, 1.7), (10, 1.0), (20, 0.66)])
def test_detectable_effect_has_the_published_size_and_the_power_in_simulation(n: int, expected: float) -> None:
    effect = stats.detectable_effect(1.0, n)
    assert effect is not None and effect == pytest.approx(expected, rel=0.02)
    found = sum(not covers(stats.t_interval(row).interval, 0.0) for row in samples(n, seed=10, mean=effect))
    assert_rate(found, 0.8)


def test_detectable_effect_scales_with_the_spread_and_the_level() -> None:
    single, double = stats.detectable_effect(1.0, 5), stats.detectable_effect(2.0, 5)
    strict = stats.detectable_effect(1.0, 5, level=0.99)
    assert single is not None and double == pytest.approx(2 * single)
    assert strict is not None and strict > single
    assert stats.detectable_effect(0.0, 5) == 0.0
    assert stats.detectable_effect(1.0, 1) is None


@pytest.mark.parametrize("n", [3, 5, 10, 20, 200])
def test_seeds_needed_inverts_the_detectable_effect(n: int) -> None:
    effect = stats.detectable_effect(1.0, n)
    assert effect is not None
    assert stats.seeds_needed(1.0001 * effect, 1.0) == stats.seeds_needed(-1.0001 * effect, 1.0) == n
    assert stats.seeds_needed(0.9999 * effect, 1.0) == n + 1


@pytest.mark.parametrize(("share", "alpha"), [(0.7, 0.05), (0.2, 0.05), (0.9, 0.025), (1.0, 0.05 / 6)])
def test_signs_needed_is_the_first_n_with_the_power(share: float, alpha: float) -> None:
    from scipy.stats import binom, binomtest

    def power(n: int) -> float:
        rejected = [k for k in range(n + 1) if binomtest(k, n).pvalue <= alpha and 2 * k > n]
        return float(sum(binom.pmf(k, n, max(share, 1 - share)) for k in rejected))

    needed = stats.signs_needed(share, alpha)
    assert needed is not None and power(needed) >= 0.8 > max(power(n) for n in range(1, needed))


def test_no_number_of_signs_shows_what_is_not_there() -> None:
    assert stats.signs_needed(0.5, limit=60) is None


@pytest.mark.parametrize("effect", [0.3, 0.5, 1.0])
def test_seeds_needed_where_a_part_of_the_variance_stays(effect: float) -> None:
    n = stats.seeds_needed(effect, 1.0, fixed=0.01)
    assert n is not None and n > (stats.seeds_needed(effect, 1.0) or 0)
    shown = [stats.detectable_effect(math.sqrt(1 + 0.01 * seeds), seeds) for seeds in (n - 1, n)]
    assert shown[0] is not None and shown[1] is not None and shown[1] <= effect < shown[0]
    assert stats.seeds_needed(effect, 1.0, fixed=effect**2) is None
    assert stats.seeds_needed(effect, 0.0, fixed=1e-6) is not None


def test_seeds_needed_at_the_ends() -> None:
    assert stats.seeds_needed(1e6, 1.0) == 2
    assert stats.seeds_needed(1e-3, 1.0) is None
    assert stats.seeds_needed(0.0, 1.0) is None
    assert stats.seeds_needed(0.3, 1.0, limit=80) is None and stats.seeds_needed(0.3, 1.0, limit=100) is not None
    assert stats.seeds_needed(0.5, 0.0) == 2 and stats.seeds_needed(0.0, 0.0) is None


def test_nothing_one_and_no_spread() -> None:
    assert stats.t_interval([]) == stats.Estimate(None, None, 0.95, None, 0)
    assert stats.t_interval([0.3]) == stats.Estimate(0.3, None, 0.95, None, 1)
    assert stats.t_interval([0.1] * 7) == stats.Estimate(0.1, (0.1, 0.1), 0.95, 0.0, 7)
    assert stats.prediction_interval([0.3]) is None and stats.prediction_interval([0.3, 0.3]) == (0.3, 0.3)
    assert stats.within(None, 1.0) is False and stats.within((0.0, 0.0), None) is False
    assert stats.within((0.0, 0.0), 0.1) is True and stats.within((0.1, 0.1), 0.1) is False
    assert stats.welch([], [1.0]).mean is None
    assert stats.welch([3.0], [1.0, 1.5]).interval is None
    assert stats.welch([3.0, 3.0], [1.0, 1.0]).interval == (2.0, 2.0)


def test_known_interval() -> None:
    """Student's sleep data (1908): ten pairs, extra sleep 1.58 hours, t = 4.0621, 95 % interval [0.70, 2.46]."""
    first = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]
    second = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
    seen = stats.t_interval([a - b for a, b in zip(first, second, strict=True)])
    assert seen.mean == pytest.approx(1.58)
    assert seen.interval == pytest.approx((0.7001142, 2.4598858))
    assert stats.correlation(first, second) == pytest.approx(0.7951702)
    assert stats.welch(first, second).interval == pytest.approx((-0.2054832, 3.3654832))


def test_correlation_needs_equal_lengths_and_spread() -> None:
    with pytest.raises(ValueError):
        stats.correlation([1.0, 2.0, 4.0], [1.0, 2.0])
    assert stats.correlation([1.0, 2.0, 4.0], [1.0, 1.0, 1.0]) is None
    assert stats.correlation([1.0, 2.0], [1.0, 3.0]) is None


def test_kendall_tau() -> None:
    assert stats.kendall([1, 2, 3, 4], [1, 2, 4, 3]) == pytest.approx(4 / 6)
    assert math.isnan(stats.kendall([1, 2, 3], [5, 5, 5]))
    draw = np.random.default_rng(0)
    for n, values in [(2, 9), (5, 3), (16, 4), (16, 10**6)] * 20:
        first, second = draw.integers(0, values, (2, n)).tolist()
        wanted = scipy.stats.kendalltau(first, second).statistic
        assert np.array_equal(stats.kendall(first, second), wanted, equal_nan=True)


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=8), st.floats(-1e3, 1e3))
def test_an_interval_moves_with_its_values_and_mirrors_with_their_sign(values: list[float], shift: float) -> None:
    low, high = stats.t_interval(values).interval or (math.nan, math.nan)
    moved = stats.t_interval([value + shift for value in values]).interval
    mirrored = stats.t_interval([-value for value in values]).interval
    assert moved == pytest.approx((low + shift, high + shift), abs=1e-6)
    assert mirrored == pytest.approx((-high, -low), abs=1e-9)


@pytest.mark.parametrize("values", [[0.0, 0.0, 0.5, 0.1], [97.0, 99.5, 100.0], [2.1, 2.4, 2.2, 2.3, 2.0]])
def test_the_interval_of_rates_is_that_of_scipy_on_the_logit(values: list[float]) -> None:
    """By the delta method: the standard error of logit(p) is that of p over p(1 − p)."""
    share = np.mean(values) / 100
    error = scipy.stats.sem(values) / 100 / (share * (1 - share))
    wanted = 100 * scipy.special.expit(
        scipy.stats.t.interval(0.95, len(values) - 1, loc=scipy.special.logit(share), scale=error)
    )
    estimate = stats.rate_interval(values, 100.0)
    assert estimate.interval == pytest.approx(tuple(wanted))
    assert (estimate.mean, estimate.n) == (pytest.approx(np.mean(values)), len(values))


@pytest.mark.parametrize("values", [[40.0, 900.0, 4000.0], [0.0, 3.0, 1.0], [11.0, 11.5, 10.8, 11.2]])
def test_the_interval_of_times_is_that_of_scipy_on_the_logarithm(values: list[float]) -> None:
    mean = np.mean(values)
    wanted = scipy.stats.t.interval(0.95, len(values) - 1, loc=np.log(mean), scale=scipy.stats.sem(values) / mean)
    assert stats.time_interval(values).interval == pytest.approx(tuple(np.exp(wanted)))


RATES = st.lists(st.floats(0, 100), min_size=1, max_size=12)


@given(RATES)
def test_an_interval_of_rates_lies_among_them_and_mirrors(values: list[float]) -> None:
    estimate, linear = stats.rate_interval(values, 100.0), stats.t_interval(values)
    mirrored = stats.rate_interval([100 - value for value in values], 100.0)
    assert estimate.mean == linear.mean
    if estimate.interval is None or mirrored.interval is None:
        assert len(values) == 1
        return
    low, high = estimate.interval
    assert 0 <= low <= linear.mean + 1e-9 and linear.mean - 1e-9 <= high <= 100
    assert (100 - mirrored.interval[1], 100 - mirrored.interval[0]) == pytest.approx((low, high), abs=1e-6)
    assert stats.time_interval(values).interval[0] >= 0


def test_numbers_that_are_no_rates_and_those_without_a_spread_have_their_interval() -> None:
    for values in ([-1.0, 0.5, 0.7], [0.5, 1.2], [0.3, 0.3], [0.0, 0.0, 0.0], [1.0, 1.0]):
        assert stats.rate_interval(values) == stats.t_interval(values)
    assert stats.time_interval([0.0, 0.0]) == stats.t_interval([0.0, 0.0])
    assert stats.rate_interval([]).mean is None and stats.time_interval([2.0]).interval is None


@pytest.mark.parametrize("n", [5, 10, 20])
def test_the_interval_of_rates_covers_the_mean_of_skewed_ones(n: int) -> None:
    """Errors of a few per cent: as often as the interval of Student's t, or more."""
    rng = np.random.default_rng(n)
    samples, mean = rng.beta(2, 98, (4000, n)), 0.02
    within = [[f(list(s)).interval for s in samples] for f in (stats.rate_interval, stats.t_interval)]
    logit, linear = (np.mean([low <= mean <= high for low, high in intervals]) for intervals in within)
    assert 0.92 < logit < 0.97 and logit > linear - 0.005
