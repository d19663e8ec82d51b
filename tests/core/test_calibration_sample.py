"""Calibration samples: weights for a base rate, the audit of a sample, and samples that raise an error."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgcore.calibrate.sample import CalibrationSample, base_rate_weights, ground_truth_sample, synthetic_sample
from kgcore.calibrate.validation import score_audit
from kgcore.errors import FitError, InputError


@given(st.integers(1, 50), st.integers(1, 500), st.floats(0.001, 0.999))
def test_weights_give_the_base_rate_whatever_eta_is(positives: int, negatives: int, alpha: float) -> None:
    sample = synthetic_sample(np.ones(positives), np.zeros(negatives), alpha)
    assert sample.base_rate == pytest.approx(alpha)
    assert sample.weights.mean() == pytest.approx(1)
    labels = np.r_[np.ones(positives), np.zeros(negatives)]
    ratio = base_rate_weights(labels, alpha)[0] / base_rate_weights(labels, alpha)[-1]
    assert ratio == pytest.approx((negatives / positives) / (1 / alpha - 1))  # equation 5: w+ = eta, w- = 1 / alpha - 1


@pytest.mark.parametrize("alpha", [0.0, 1.0, 1.5, -0.1, math.nan])
def test_a_base_rate_outside_its_range_is_refused(alpha: float) -> None:
    with pytest.raises(InputError, match="base_rate"):
        synthetic_sample(np.ones(2), np.zeros(2), alpha)


def test_samples_that_cannot_be_fitted_are_refused() -> None:
    with pytest.raises(FitError, match="the sample has positives only: a calibrator needs positives and negatives"):
        ground_truth_sample(np.arange(3.0), np.ones(3))
    with pytest.raises(InputError, match="not finite"):
        ground_truth_sample(np.array([1.0, np.nan]), np.array([0.0, 1]))
    with pytest.raises(InputError, match="labels hold -1: every label must be 0"):
        ground_truth_sample(np.array([1.0, 2]), np.array([-1.0, 1]))
    with pytest.raises(InputError, match="lengths must be equal"):
        ground_truth_sample(np.arange(3.0), np.ones(2))
    with pytest.raises(InputError, match="weights hold 0: every weight must be above 0"):
        CalibrationSample(np.arange(2.0), np.array([0.0, 1]), np.array([1.0, 0]))


def test_weights_for_a_base_rate_need_both_labels() -> None:
    with pytest.raises(FitError, match="there are 0 positives and 3 negatives: weights for a base rate need both"):
        base_rate_weights(np.zeros(3), 0.5)


def test_the_audit_of_a_sample_by_hand() -> None:
    """The negatives win 0, 1 and 1.5 of two pairs each; weights of 1.5 and 1 are worth 6^2 / 7.5 rows."""
    sample = synthetic_sample(np.array([1.0, 2.0]), np.array([0.0, 1.5, 2.0]), 0.5)
    audit = score_audit(sample)
    assert audit["overlap"] == pytest.approx((0 + 1 + 1.5) / 6)
    assert audit["effective_sample_size"] == pytest.approx(6**2 / (2 * 1.5**2 + 3))
    assert list(audit) == ["overlap", "effective_sample_size"]
