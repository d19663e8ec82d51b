"""Isotonic regression and its smoothed variant, compared with scikit-learn and hand numbers."""

import numpy as np
import pytest
from hypothesis import given, settings
from sklearn.isotonic import IsotonicRegression

from kgcore.calibrate.isotonic import Isotonic, SmoothedIsotonic
from kgcore.calibrate.sample import CalibrationSample, ground_truth_sample
from tests.core.calibrator_samples import GRID, drawn, samples


def test_isotonic_agrees_with_scikit_learn(rng: np.random.Generator) -> None:
    scores, labels = drawn(6, 500, decimals=1)  # with ties
    weights = rng.uniform(0.1, 5, 500)
    ours = Isotonic().fit_sample(CalibrationSample(scores, labels, weights))
    reference = IsotonicRegression(out_of_bounds="clip").fit(scores, labels, sample_weight=weights)
    np.testing.assert_allclose(ours.calibrate(GRID), reference.predict(GRID), atol=1e-9)
    assert len(ours.scores_) < len(np.unique(scores))


@pytest.mark.parametrize("rare", [0, 1])
@pytest.mark.parametrize("decimals", [1, 9])
def test_isotonic_with_a_rare_label_agrees_too(rng: np.random.Generator, rare: int, decimals: int) -> None:
    """Runs of rows between two rare ones are pooled first: see `score_runs`."""
    scores, labels = rng.normal(size=2_000).round(decimals), np.full(2_000, 1.0 - rare)
    labels[rng.choice(2_000, 30, replace=False)] = rare
    weights = rng.uniform(0.1, 5, 2_000)
    ours = Isotonic().fit_sample(CalibrationSample(scores, labels, weights))
    reference = IsotonicRegression(out_of_bounds="clip").fit(scores, labels, sample_weight=weights)
    np.testing.assert_allclose(ours.calibrate(scores), reference.predict(scores), atol=1e-12)
    np.testing.assert_allclose(ours.calibrate(GRID), reference.predict(GRID), atol=1e-12)


def test_isotonic_by_hand() -> None:
    sample = CalibrationSample(np.array([1.0, 2, 2, 3, 4]), np.array([0.0, 1, 0, 0, 1]), np.array([1.0, 1, 1, 2, 1]))
    fitted = Isotonic().fit_sample(sample)
    np.testing.assert_allclose(fitted.calibrate(np.array([0, 1, 2, 3, 3.5, 4, 9])), [0, 0, 0.25, 0.25, 0.625, 1, 1])


def test_smoothed_isotonic_by_hand() -> None:
    """Blocks of 2 rows with 0, 1 and 2 positives and r = 1/2 give (0 + .5) / 3, (1 + .5) / 3, (2 + .5) / 3."""
    scores, labels = np.arange(6.0), np.array([0.0, 0, 1, 0, 1, 1])
    fitted = SmoothedIsotonic().fit_sample(ground_truth_sample(scores, labels))
    np.testing.assert_allclose(fitted.calibrate(scores), np.repeat([1 / 6, 1 / 2, 5 / 6], 2))
    np.testing.assert_allclose(fitted.calibrate(np.array([-9, 1.5, 9])), [1 / 6, 1 / 3, 5 / 6])


def test_blocks_that_the_prior_puts_out_of_order_are_merged() -> None:
    """19 positives of 20, then 1 of 1, r = 2/3: 19 2/3 of 21 is more than 1 2/3 of 2, so they merge to 21 1/3 of 23."""
    scores = np.r_[np.zeros(9), np.ones(20), 2.0]
    labels = np.r_[np.zeros(9), np.ones(19), 0.0, 1.0]
    fitted = SmoothedIsotonic().fit_sample(ground_truth_sample(scores, labels))
    rate = 20 / 30
    want = [rate / 10, (20 + 2 * rate) / 23, (20 + 2 * rate) / 23]
    np.testing.assert_allclose(fitted.calibrate(np.arange(3.0)), want)


@settings(max_examples=100)
@given(sample=samples())
def test_smoothing_moves_every_probability_towards_the_base_rate(sample: CalibrationSample) -> None:
    smoothed = SmoothedIsotonic().fit_sample(sample).calibrate(sample.scores)
    plain, rate = Isotonic().fit_sample(sample).calibrate(sample.scores), sample.base_rate
    assert ((smoothed > 0) & (smoothed < 1)).all()
    assert (smoothed >= np.minimum(plain, rate) - 1e-9).all()
    assert (smoothed <= np.maximum(plain, rate) + 1e-9).all()
