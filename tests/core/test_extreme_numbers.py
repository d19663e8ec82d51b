"""Numbers at the ends of what a float holds: the right probability, or a sentence with the range, never a constant."""

import warnings

import numpy as np
import pytest

from kgcore.calibrate.sample import CalibrationSample
from kgcore.errors import InputError
from kgcore.measure.metrics.base import Sample
from kgcore.registries import CALIBRATORS, METRICS
from kgcore.wings.monitoring.drift import stability
from tests.core.calibrator_samples import drawn

SCORES, LABELS = drawn(3, 300)
ONES = np.ones(len(SCORES))


@pytest.mark.parametrize("name", CALIBRATORS.names())
@pytest.mark.parametrize("scale", [2.0**-320, 2.0**-160, 2.0**160, 2.0**320])
def test_scores_of_another_scale_get_the_same_probabilities(name: str, scale: float) -> None:
    fit = CALIBRATORS.get(name)().fit_sample
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        q = fit(CalibrationSample(SCORES * scale, LABELS, ONES)).calibrate(SCORES * scale)
    expected = fit(CalibrationSample(SCORES, LABELS, ONES)).calibrate(SCORES)
    np.testing.assert_allclose(q, expected, atol=1e-9)


@pytest.mark.parametrize("size", [5e-324, 1e-310, 1e-200, 1e154, 1e200, 1e308])
def test_scores_out_of_range_are_refused_with_the_range(size: float) -> None:
    with pytest.raises(InputError, match=r"scores hold .*: each must be 0 or of a size from 1e-100 to 1e\+100"):
        CalibrationSample(np.r_[SCORES[:-1], size], LABELS, ONES)


@pytest.mark.parametrize("name", CALIBRATORS.names())
@pytest.mark.parametrize("scale", [5e-324, 1e-300, 1e307])
def test_the_scale_of_weights_does_not_matter(name: str, scale: float) -> None:
    fit = CALIBRATORS.get(name)().fit_sample
    weights = scale * np.where(LABELS == 1, 3.0, 1.0)
    q = fit(CalibrationSample(SCORES, LABELS, weights)).calibrate(SCORES)
    expected = fit(CalibrationSample(SCORES, LABELS, weights / scale)).calibrate(SCORES)
    np.testing.assert_allclose(q, expected, atol=1e-9)


def test_a_weight_that_counts_as_nothing_is_refused() -> None:
    with pytest.raises(InputError, match=r"the largest weight is over 1e\+100 times the smallest"):
        CalibrationSample(SCORES, LABELS, np.r_[ONES[:-1], 1e-300])


@pytest.mark.parametrize("scale", [5e-324, 1e307])
def test_metrics_and_stability_do_not_depend_on_the_scale_of_weights(scale: float) -> None:
    q, weights = 1 / (1 + np.exp(-SCORES)), np.where(LABELS == 1, 3.0, 1.0)
    plain, scaled = (Sample(q, LABELS, weights * own).tally() for own in (1.0, scale))
    for name in METRICS.names():
        figure = METRICS.get(name).figure
        np.testing.assert_allclose(figure(scaled), figure(plain), rtol=1e-12, err_msg=name)
    others = SCORES[:100] + 0.3
    np.testing.assert_allclose(stability(SCORES, others, weights * scale), stability(SCORES, others, weights))
