"""Calibration of distorted scores: the true probability of each undistorted score is known."""

import numpy as np
import pytest
from scipy.special import expit

from kgcore.calibrate.sample import CalibrationSample, ground_truth_sample, shift, synthetic_sample
from kgcore.measure.metrics.proper import brier
from kgcore.registries import CALIBRATORS
from tests.core.calibrator_samples import bent, drawn, quiet

DISTORTIONS = {
    "steep": (lambda f: 4 * f + 3, 0.005),
    "flat": (lambda f: f / 10 - 5, 0.005),
    "cubic": (lambda f: f**3, 0.03),  # no sigmoid fits this distortion
}


@pytest.mark.parametrize("distortion", DISTORTIONS)
@pytest.mark.parametrize("name", sorted(set(CALIBRATORS.names()) - {"temperature"}))  # temperature has no offset
def test_every_calibrator_repairs_a_known_distortion(name: str, distortion: str) -> None:
    distort, tolerance = DISTORTIONS[distortion]
    scores, labels = drawn(1, 4000)
    fresh, truth = drawn(2, 4000)
    fitted = CALIBRATORS.get(name)().fit_sample(ground_truth_sample(distort(scores), labels))
    after = brier(fitted.calibrate(distort(fresh)), truth)
    assert after < brier(expit(distort(fresh)), truth)
    assert after < brier(expit(1.5 * fresh - 0.5), truth) + tolerance


@quiet
@pytest.mark.parametrize("name", ["beta", "smoothed_isotonic", "bbq", "venn_abers"])
def test_bent_log_odds_are_fitted_better_than_by_platt_scaling(name: str) -> None:
    scores, labels = bent(15, 20_000)
    sample, grid = ground_truth_sample(scores, labels), np.linspace(-2, 2, 201)
    truth = expit(np.where(grid < 0, 3 * grid, grid))

    def error(calibrator: str, fitted_on: CalibrationSample = sample) -> float:
        return float(np.abs(CALIBRATORS.get(calibrator)().fit_sample(fitted_on).calibrate(grid) - truth).mean())

    assert error(name) < 0.6 * error("platt")
    skewed = synthetic_sample(scores[labels == 1], scores[labels == 0], 0.1)
    moved = shift(truth, float(labels.mean()), 0.1)
    assert np.abs(CALIBRATORS.get(name)().fit_sample(skewed).calibrate(grid) - moved).mean() < 0.02
