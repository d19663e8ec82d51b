"""The share of wrong facts: from planted errors, and from the labels of a stratified sample."""

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import beta, binomtest, norm

from kgcore.calibrate.sample import shift
from kgcore.errors import FitError, InputError
from kgcore.measure.metrics.reliability import wilson
from kgcore.wings.audit.sample import STRATA, Strata, allocate, draw_sample, largest_share, sampled_share, stratify


def population(n: int, share: float, apart: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return which facts are wrong, and their true probabilities of being true at base rate 1/2."""
    wrong = rng.random(n) < share
    scores = rng.normal(np.where(wrong, -apart / 2, apart / 2))
    return wrong, expit(apart * scores)  # the log-likelihood ratio of N(a/2, 1) against N(-a/2, 1)


@pytest.mark.parametrize(("share", "apart"), [(0.05, 4.0), (0.2, 4.0)])
def test_the_largest_share_is_near_the_share_if_errors_stand_out(share: float, apart: float) -> None:
    """Planted errors have the density of wrong facts: the ratio is g / f with f = (1 - w) right + w wrong."""
    values = []
    for seed in range(50):
        rng = np.random.default_rng(seed)
        wrong, planted = rng.random(8_000) < share, np.arange(8_400) >= 8_000
        scores = rng.normal(np.where(np.r_[wrong, np.ones(400, dtype=bool)], -apart / 2, apart / 2))
        likelier = np.exp(-apart * scores)
        found = largest_share(likelier / (1 - share + share * likelier), planted)
        assert found.low == 0 < found.value <= found.high
        values.append((found.value, found.high))
    assert np.mean([value for value, _ in values]) == pytest.approx(share, rel=0.15)
    assert np.mean([high >= share for _, high in values]) >= 0.9


def test_the_largest_share_is_counted_by_hand() -> None:
    # Tail 1: all 10 errors and 1 + 7 of 100 facts have a ratio of at least 2: 8 / 100 / (10 / 10) = 0.08.
    ratios = np.r_[np.full(10, 2.0), 9.0, np.full(7, 3.0), np.zeros(92)]
    planted = np.arange(110) < 10
    found = largest_share(ratios, planted)
    assert found.value == pytest.approx(0.08)
    high = 8.5 / 100.5 * np.exp(norm.ppf(1 - 0.05 / 9) * np.sqrt(1 / 8.5 - 1 / 100.5))  # nine tails
    assert found.high == pytest.approx(high)
    assert largest_share(np.ones(40), np.arange(40) < 20).value == 1  # the ratios say nothing
    with pytest.raises(FitError, match="needs planted errors and training facts"):
        largest_share(np.ones(4), np.zeros(4, dtype=bool))


def test_the_strata_have_equal_sums_of_deviations() -> None:
    w = np.random.default_rng(0).beta(0.1, 2, 5000)
    strata = stratify(w)
    assert strata.counts.tolist() == np.bincount(strata.of).tolist()
    assert len(strata.counts) == STRATA
    sums = np.bincount(strata.of, weights=np.sqrt(w * (1 - w)))
    np.testing.assert_allclose(sums, sums.mean(), rtol=0.01)
    assert (np.diff(strata.of[np.argsort(w)]) >= 0).all()
    mean = w[strata.of == 1].mean()
    assert strata.spread[1] == pytest.approx(np.sqrt(mean * (1 - mean)))


@pytest.mark.parametrize("w", [np.zeros(30), np.ones(30), np.full(30, 0.2)])
def test_strata_without_signal_are_still_a_design(w: np.ndarray) -> None:
    strata = stratify(w)
    assert strata.counts.sum() == 30
    assert (strata.counts > 0).all()
    assert allocate(strata, 20).sum() == 20


def test_half_of_the_labels_are_allocated_by_neyman() -> None:
    strata = Strata(np.repeat([0, 1], [900, 100]), np.array([900, 100]), np.array([0.1, 0.5]))
    # Neyman: 900 x 0.1 to 100 x 0.5 = 18 to 10 of 28; by size: 25.2 to 2.8; the mean is 21.6 to 6.4
    assert allocate(strata, 28).tolist() == [22, 6]
    assert allocate(strata, 10).tolist() == [5, 5]
    assert allocate(strata, 5000).tolist() == [900, 100]
    with pytest.raises(InputError, match="sample is 9: it must be at least 10, 5 for each stratum"):
        allocate(strata, 9)


def test_a_sample_has_the_allocated_facts_once(rng: np.random.Generator) -> None:
    strata = stratify(rng.beta(0.2, 2, 400))
    rows = draw_sample(strata, 60, rng)
    assert len(set(rows.tolist())) == 60
    assert np.bincount(strata.of[rows]).tolist() == allocate(strata, 60).tolist()


def test_one_large_stratum_has_the_limits_of_clopper_pearson_and_jeffreys() -> None:
    found = sampled_share(np.zeros(40, dtype=int), np.array([10**9]), np.arange(40) < 3)
    assert found.value == 3 / 40
    assert found.low == pytest.approx(binomtest(3, 40).proportion_ci(0.95, "exact").low, abs=1e-6)
    assert found.high == pytest.approx(beta.ppf(0.975, 3.5, 37.5), abs=1e-6)


def test_the_intervals_of_strata_are_combined_by_their_weights() -> None:
    counts, strata = np.array([300, 100]), np.repeat([0, 1], [20, 10])
    wrong = np.r_[np.arange(20) < 1, np.arange(10) < 6]
    found = sampled_share(strata, counts, wrong)
    below, above = 0.0, 0.0
    for x, n, total in ((1, 20, 300), (6, 10, 100)):
        weight = total / 400 * np.sqrt((total - n) / (total - 1))
        below += (weight * (x / n - beta.ppf(0.025, x, n - x + 1))) ** 2
        above += (weight * (beta.ppf(0.975, x + 0.5, n - x + 0.5) - x / n)) ** 2
    assert found.value == pytest.approx(0.75 * 0.05 + 0.25 * 0.6)
    assert found.low == pytest.approx(found.value - np.sqrt(below))
    assert found.high == pytest.approx(found.value + np.sqrt(above))


def test_a_census_has_no_uncertainty() -> None:
    found = sampled_share(np.array([0, 0, 1]), np.array([2, 1]), np.array([True, False, False]))
    assert (found.value, found.low, found.high) == pytest.approx((1 / 3, 1 / 3, 1 / 3))


def test_a_sample_must_have_labels_of_every_stratum() -> None:
    with pytest.raises(InputError, match="no fact of stratum 2, 3 is labelled"):
        sampled_share(np.array([0, 0]), np.array([9, 9, 9]), np.array([True, False]))
    with pytest.raises(InputError, match="more labelled facts than facts"):
        sampled_share(np.array([0, 0]), np.array([1]), np.array([True, False]))


def repeated(w: np.ndarray, wrong: np.ndarray, repetitions: int = 100) -> tuple[int, float]:
    """Return how many of the intervals from 200 labels hold the true share, and their width by Wilson's."""
    strata, covered, ratio = stratify(w), 0, 0.0
    for seed in range(repetitions):
        rng = np.random.default_rng(seed)
        rows = draw_sample(strata, 200, rng)
        found = sampled_share(strata.of[rows], strata.counts, wrong[rows])
        simple = np.ptp(wilson(wrong.mean(keepdims=True), np.array([200.0])))
        covered += found.low <= wrong.mean() <= found.high
        ratio += (found.high - found.low) / float(simple) / repetitions
    return covered, ratio


@pytest.mark.parametrize(("share", "apart"), [(0.05, 4.0), (0.1, 3.5), (0.2, 3.0)])
def test_the_interval_covers_and_is_narrower_than_that_of_a_simple_sample(share: float, apart: float) -> None:
    wrong, q = population(20_000, share, apart, np.random.default_rng(0))
    covered, ratio = repeated(1 - shift(q, 0.5, 1 - share), wrong)
    assert covered >= 93
    assert ratio <= 0.7


@pytest.mark.parametrize("share", [0.02, 0.1])
def test_the_interval_covers_if_the_probabilities_say_nothing(share: float) -> None:
    wrong, q = population(20_000, share, 4.0, np.random.default_rng(0))
    covered, ratio = repeated(np.random.default_rng(1).permutation(1 - shift(q, 0.5, 0.95)), wrong, 400)
    assert covered >= 0.93 * 400
    assert ratio < 1.35
