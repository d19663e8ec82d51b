"""Confidence limits of a probability: hand-computed windows, coverage under a known truth, weights, storage."""

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binomtest

from kgcore.calibrate.sample import CalibrationSample, shift, synthetic_sample
from kgcore.calibrate.support import Band


def test_the_limits_are_those_of_clopper_and_pearson_in_the_best_window() -> None:
    """1,000 rows: windows of 25, 100 and 400 rows. The lower half is negative, the upper half positive."""
    scores = np.arange(1000.0)
    band = Band.fit(CalibrationSample(scores, (scores >= 500).astype(float), np.ones(1000)), confidence=0.94)
    low, high = band.limits(np.array([50.0, 950.0]))
    largest = binomtest(400, 400).proportion_ci(0.98).low  # each of the six windows errs with probability .01
    assert (low[0], high[1]) == (0, 1)
    assert low[1] == pytest.approx(largest, rel=1e-9)
    assert high[0] == pytest.approx(1 - largest, rel=1e-9)


def test_outside_the_scores_of_the_sample_one_limit_is_trivial() -> None:
    scores = np.arange(200.0)
    low, high = Band.fit(CalibrationSample(scores, np.tile([0.0, 1.0], 100), np.ones(200))).limits(
        np.array([-1.0, 300])
    )
    assert (low[0], high[1]) == (0, 1)
    assert 0.3 < low[1] < 0.5 < high[0] < 0.7


@pytest.mark.parametrize("n", [100, 1000])
def test_the_limits_cover_a_known_truth(n: int) -> None:
    rng, at = np.random.default_rng(7), np.linspace(-4, 4, 33)
    covered = []
    for _ in range(100):
        scores = 2 * rng.normal(size=n)
        labels = (rng.random(n) < expit(1.5 * scores)).astype(float)
        low, high = Band.fit(CalibrationSample(scores, labels, np.ones(n))).limits(at)
        covered.append((low <= expit(1.5 * at)) & (expit(1.5 * at) <= high))
    assert np.mean(covered, axis=0).min() >= 0.95


def test_the_limits_cover_at_a_low_base_rate() -> None:
    """Normal scores with means 2 and 0: logit q(f) = 2 f - 2 + logit(0.01)."""
    rng, at = np.random.default_rng(8), np.linspace(-2, 4, 31)
    truth = expit(2 * at - 2 + np.log(0.01 / 0.99))
    covered = []
    for _ in range(100):
        sample = synthetic_sample(rng.normal(size=300) + 2, rng.normal(size=6000), base_rate=0.01)
        low, high = Band.fit(sample).limits(at)
        covered.append((low <= truth) & (truth <= high))
    assert np.mean(covered, axis=0).min() >= 0.95


def test_more_rows_give_a_narrower_band() -> None:
    rng, at = np.random.default_rng(9), np.linspace(-2, 2, 9)

    def width(n: int) -> np.ndarray:
        scores = rng.normal(size=n)
        low, high = Band.fit(
            CalibrationSample(scores, (rng.random(n) < expit(scores)).astype(float), np.ones(n))
        ).limits(at)
        return high - low

    assert (width(100_000) < width(1000) / 2).all()


def test_the_band_of_a_weighted_sample_is_the_shifted_band_of_its_rows() -> None:
    rng = np.random.default_rng(10)
    positives, corruptions = rng.normal(size=200) + 1, rng.normal(size=800)
    plain, weighted = (Band.fit(synthetic_sample(positives, corruptions, 0.03, weighted=on)) for on in (False, True))
    np.testing.assert_allclose(weighted.low, shift(plain.low, 0.2, 0.03), rtol=1e-12)
    np.testing.assert_allclose(weighted.high, shift(plain.high, 0.2, 0.03), rtol=1e-12)


def test_tied_scores_are_not_divided() -> None:
    scores, labels = np.repeat([0.0, 1.0], 500), np.tile([0.0, 1.0], 500)
    order = np.random.default_rng(11).permutation(1000)
    bands = [Band.fit(CalibrationSample(scores[i], labels[i], np.ones(1000))) for i in (np.arange(1000), order)]
    assert bands[0].to_json() == bands[1].to_json()


def test_a_band_is_stored_as_json() -> None:
    band = Band.fit(CalibrationSample(np.arange(50.0), np.arange(50) % 2.0, np.ones(50)))
    read = Band.from_json(band.to_json())
    for mine, other in zip(band.limits(np.arange(-5.0, 55.0)), read.limits(np.arange(-5.0, 55.0)), strict=True):
        np.testing.assert_array_equal(mine, other)


def test_limits_that_contradict_each_other_are_both_in_the_interval() -> None:
    """Half of the rows are positive below a score, and none above it: no non-decreasing share fits."""
    scores = np.arange(2000.0)
    labels = np.where(scores < 1000, scores % 2, 0.0)
    low, high = Band.fit(CalibrationSample(scores, labels, np.ones(2000))).limits(np.array([1000.0]))
    assert low[0] < 0.05
    assert 0.35 < high[0] < 0.5
