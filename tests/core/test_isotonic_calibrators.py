"""Isotonic regression and its smoothed and centred variants, compared with scikit-learn and hand numbers."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from sklearn.isotonic import IsotonicRegression

from kgcore.calibration.centred_isotonic import CentredIsotonic
from kgcore.calibration.isotonic import Isotonic
from kgcore.calibration.sample import CalibrationSample, ground_truth_sample
from kgcore.calibration.smoothed_isotonic import SmoothedIsotonic
from tests.core.calibrator_samples import GRID, bent, drawn, samples


def test_isotonic_agrees_with_scikit_learn(rng: np.random.Generator) -> None:
    scores, labels = drawn(6, 500, decimals=1)  # with ties
    weights = rng.uniform(0.1, 5, 500)
    ours = Isotonic().fit_sample(CalibrationSample(scores, labels, weights))
    reference = IsotonicRegression(out_of_bounds="clip").fit(scores, labels, sample_weight=weights)
    np.testing.assert_allclose(ours.calibrate(GRID), reference.predict(GRID), atol=1e-9)
    assert len(ours.scores_) < len(np.unique(scores))


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


def test_centred_isotonic_by_hand() -> None:
    """Blocks {1, 2, 3} with 1 of 3 positives, {5, 9} with 1 of 2, {10} with 3 of 4 by weight; centres 2, 7, 10."""
    scores = np.array([1.0, 2, 3, 5, 9, 10, 10])
    labels, weights = np.array([1.0, 0, 0, 1, 0, 1, 0]), np.array([1.0, 1, 1, 1, 1, 3, 1])
    fitted = CentredIsotonic().fit_sample(CalibrationSample(scores, labels, weights))
    np.testing.assert_allclose(fitted.scores_, [2, 7, 10])
    np.testing.assert_allclose(fitted.probabilities_, [1 / 3, 1 / 2, 3 / 4])
    np.testing.assert_allclose(fitted.calibrate(np.array([2, 4.5, 7, 8.5, 10])), [1 / 3, 5 / 12, 1 / 2, 5 / 8, 3 / 4])
    slope = (1 / 6) / 5  # below: 1/3 exp(slope / (1/3) (f - 2)); above: 1 - 1/4 exp(-(1/12) / (1/4) (f - 10))
    np.testing.assert_allclose(fitted.calibrate(np.array([1.0])), math.exp(-3 * slope) / 3)
    np.testing.assert_allclose(fitted.calibrate(np.array([13.0])), 1 - math.exp(-1) / 4)


@settings(max_examples=100)
@given(sample=samples())
def test_centred_isotonic_keeps_the_ranking(sample: CalibrationSample) -> None:
    """The curve is strictly increasing with four exceptions.

    It may be flat below a level of 0, above a level of 1, with one block only, and where q rounds to 1.
    """
    fitted = CentredIsotonic().fit_sample(sample)
    if len(fitted.scores_) == 1:
        np.testing.assert_allclose(fitted.calibrate(GRID), sample.base_rate)
        return
    low = fitted.scores_[0] if fitted.probabilities_[0] == 0 else -9
    high = fitted.scores_[-1] if fitted.probabilities_[-1] == 1 else 9
    q = fitted.calibrate(np.linspace(low, high, 200))
    assert ((np.diff(q) > 0) | (q[1:] > 1 - 1e-12)).all()


def test_the_tails_of_centred_isotonic_continue_with_its_slope() -> None:
    scores, labels = bent(14, 200)
    fitted = CentredIsotonic().fit_sample(ground_truth_sample(scores, labels))
    if fitted.probabilities_[0] == 0:
        fitted = fitted.set_fitted(scores=fitted.scores_[1:], probabilities=fitted.probabilities_[1:])
    first, h = fitted.scores_[0], 1e-7
    q = fitted.calibrate(np.array([first - h, first, first + h]))
    assert (q[1] - q[0]) / h == pytest.approx((q[2] - q[1]) / h, rel=1e-4)
