"""The interval of a base rate: it covers, and it is wide where the likelihood is flat."""

import numpy as np
import pytest
from scipy.stats import beta, binomtest, chi2

from kgcore.mixture.em import solve
from kgcore.mixture.interval import (
    base_rate_interval,
    conditional_p_value,
    flat_likelihood,
    interval_level,
    needed,
    p_values,
)
from kgcore.mixture.samples import BinCounts, bin_edges, count
from tests.core.mixtures import normal_mixture

FLAT = {"means": (-1.0, 0.95), "shares": (0.0, 1.0)}


@pytest.mark.parametrize("ratio", [0.5, 4.0, 20.0])
def test_the_conditional_p_value_at_its_ends_is_that_of_chi_square(ratio: float) -> None:
    strong, weak = conditional_p_value(np.array([ratio, ratio]), np.array([1e9, 0.0]), 12)
    assert strong == pytest.approx(chi2.sf(ratio, 1), abs=1e-4)
    assert weak == pytest.approx(chi2.sf(ratio, 12), abs=1e-9)
    assert conditional_p_value(np.array([ratio]), np.array([3.0]), 1)[0] == pytest.approx(chi2.sf(ratio, 1))


@pytest.mark.parametrize("strength", [2.0, 15.0, 60.0])
def test_the_conditional_p_value_is_that_of_its_definition(strength: float) -> None:
    rng = np.random.default_rng(0)
    one, rest = rng.chisquare(1, 400_000), rng.chisquare(11, 400_000)  # Moreira (2003), equation 3
    apart = one + rest - strength
    ratios = (apart + np.sqrt((one + rest + strength) ** 2 - 4 * strength * rest)) / 2
    for level in (0.5, 0.05):
        p = conditional_p_value(np.quantile(ratios, [1 - level]), np.array([strength]), 12)[0]
        assert p == pytest.approx(level, rel=0.05)


def test_the_flat_likelihood_of_one_strategy_is_that_of_pooled_samples() -> None:
    rng = np.random.default_rng(0)
    x, c = rng.integers(1, 50, (1, 2, 6)).astype(float), rng.integers(1, 50, (1, 6)).astype(float)
    pooled = x.sum(axis=(0, 1)) + c[0]
    expected = float(pooled @ np.log(pooled / pooled.sum()))
    nothing = np.zeros((1, 6))
    assert flat_likelihood(BinCounts(c, x, nothing, nothing))[0] == pytest.approx(expected)


def p_at_truth(base_rate: float, labels: int = 0, repetitions: int = 300, **more: object) -> np.ndarray:
    """Return the p-value of the true base rate in each of some repetitions, all solved together."""
    problems = []
    for seed in range(repetitions):
        data = normal_mixture(seed, base_rate=base_rate, labels=labels, **more)  # type: ignore[arg-type]
        counts = count(data, bin_edges(data, 16))
        if counts.candidates.shape[-1] == 16:
            problems.append(counts)
    many = BinCounts.stack(problems)
    at = solve(many, np.full(len(many), base_rate))
    return p_values(many, at, solve(many).likelihood, flat_likelihood(many))


@pytest.mark.long
@pytest.mark.parametrize(
    ("base_rate", "labels", "more"),
    [(0.5, 0, {}), (0.03, 0, {}), (0.5, 50, {}), (0.5, 0, FLAT), (0.3, 60, FLAT)],
    ids=["half", "three in a hundred", "labels", "flat", "flat, with labels"],
)
def test_the_p_value_of_the_true_base_rate_has_its_level(base_rate: float, labels: int, more: dict) -> None:
    p = p_at_truth(base_rate, labels, **more)
    assert beta.ppf(0.0005, 0.925 * len(p), 0.075 * len(p)) < (p >= 0.05).mean()
    assert (p >= 0.05).mean() < 0.985


def test_without_the_correction_a_flat_likelihood_would_not_cover() -> None:
    data = [normal_mixture(seed, base_rate=0.5, **FLAT) for seed in range(100)]
    many = BinCounts.stack([count(own, bin_edges(own, 16)) for own in data])
    ratio = 2 * (solve(many).likelihood - solve(many, np.full(100, 0.5)).likelihood)
    assert (ratio <= chi2.isf(0.05, 1)).mean() < 0.9


def test_the_interval_of_separated_scores_is_nearly_that_of_labels() -> None:
    data = normal_mixture(0, (-12.0,), (1.0,), 0.2, candidates=1_000)
    counts = count(data, bin_edges(data, 12))
    rate, profile = base_rate_interval(counts, solve(counts), 0.05)
    true = round(rate.value * 1_000)
    exact = binomtest(true, 1_000).proportion_ci(0.95, "wilson")
    assert (rate.low, rate.high) == pytest.approx((exact.low, exact.high), abs=0.003)
    assert (np.diff(profile.alphas) >= 0).all()


def test_labels_make_the_interval_narrower() -> None:
    widths = []
    for labels in (0, 200):
        data = normal_mixture(5, base_rate=0.4, labels=labels, **FLAT)
        counts = count(data, bin_edges(data, 16))
        widths.append(base_rate_interval(counts, solve(counts), 0.05)[0].width)
    assert widths[0] > 0.9
    assert widths[1] < 0.16  # the exact interval of the labels alone has .14


def test_strategies_that_are_not_needed_are_left_out_and_lower_the_level() -> None:
    data = normal_mixture(2, (-1.0, -0.5, -2.0, 0.0), (1.0, 0.0, 0.0, 0.0))
    counts = count(data, bin_edges(data, 20))
    best = solve(counts)
    left = needed(counts, best)
    assert (left.weights[0] > 0).sum() == 2
    assert left.likelihood[0] <= best.likelihood[0] + 1e-6
    level = interval_level(counts, best, 100, np.random.default_rng(0))
    assert 0.01 < level <= 0.05
