"""What every registered calibrator must do."""

import json
import warnings

import numpy as np
import pytest
from hypothesis import example, given, settings

from kgcore.calibrate.calibrated import stored_class
from kgcore.calibrate.sample import CalibrationSample, ground_truth_sample, synthetic_sample
from kgcore.registries import CALIBRATORS
from tests.core.calibrator_samples import EVERY, GRID, any_scores, drawn, quiet, samples

# temperature scaling's slope must become large here, and the loss is nearly flat on the way
FAR_POSITIVE = CalibrationSample(np.array([1.0, 14428, 0.5, 0]), np.array([0.0, 1, 1, 0]), np.array([0.001, 1.0, 1, 1]))


@quiet
@settings(max_examples=60)
@given(sample=samples())
def test_predictions_are_non_decreasing_probabilities_and_survive_json(sample: CalibrationSample) -> None:
    for name in EVERY:
        fitted = stored_class(name)().fit_sample(sample)
        q = fitted.calibrate(GRID)
        assert ((q >= 0) & (q <= 1)).all(), name
        assert (np.diff(q) >= -1e-12).all(), name
        again = stored_class(name).from_parameters(json.loads(json.dumps(fitted.parameters())))
        np.testing.assert_array_equal(again.calibrate(GRID), q, name)


@quiet
@settings(max_examples=150)
@given(sample=any_scores())
@example(sample=FAR_POSITIVE)
def test_any_finite_scores_can_be_fitted(sample: CalibrationSample) -> None:
    asked = np.sort(np.r_[sample.scores, (sample.scores[1:] + sample.scores[:-1]) / 2, -1e300, -1e7, 0, 1e7, 1e300])
    for name in CALIBRATORS.names():
        fitted = CALIBRATORS.get(name)().fit_sample(sample)
        q = fitted.calibrate(asked)
        assert ((q >= 0) & (q <= 1)).all(), name
        assert (np.diff(q) >= -1e-12).all(), name
        again = CALIBRATORS.get(name).from_parameters(json.loads(json.dumps(fitted.parameters(), allow_nan=False)))
        np.testing.assert_array_equal(again.calibrate(asked), q, name)


@quiet
@pytest.mark.parametrize("name", CALIBRATORS.names())
@pytest.mark.parametrize("scores", [[-1.0, 1.0], [1.0, -1.0], [0.1, 0.1], [0.0, 0.0], [2.0, 3.0], [-3.0, -2.0]])
def test_one_positive_and_one_negative_are_enough(name: str, scores: list[float]) -> None:
    q = CALIBRATORS.get(name)().fit_sample(ground_truth_sample(np.array(scores), np.array([0.0, 1.0]))).calibrate(GRID)
    assert np.isfinite(q).all()
    assert (np.diff(q) >= -1e-12).all()


@pytest.mark.parametrize("name", sorted(set(CALIBRATORS.names()) - {"temperature"}))
@pytest.mark.parametrize("value", [0.0, 0.1, -1e6])
def test_equal_scores_get_the_base_rate(name: str, value: float) -> None:
    sample = synthetic_sample(np.full(40, value), np.full(400, value), 0.3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        q = CALIBRATORS.get(name)().fit_sample(sample).calibrate(np.array([value]))
    assert q[0] == pytest.approx(0.3, abs=0.02)


@pytest.mark.parametrize("name", EVERY)
def test_a_fit_leaves_its_sample_unchanged(name: str) -> None:
    scores, labels = drawn(20)
    sample = ground_truth_sample(scores, labels)
    kept = [array.copy() for array in (sample.scores, sample.labels, sample.weights)]
    stored_class(name)().fit_sample(sample).calibrate(sample.scores)
    for before, after in zip(kept, (sample.scores, sample.labels, sample.weights), strict=True):
        np.testing.assert_array_equal(before, after)


@quiet
@pytest.mark.parametrize("name", EVERY)
def test_a_score_has_the_same_probability_wherever_it_stands(name: str) -> None:
    """To the last bit: products of matrices may round the last rows in another way than the others."""
    scores, labels = drawn(0, 203)
    fitted = stored_class(name)().fit_sample(ground_truth_sample(scores, labels))
    alone = [fitted.calibrate(scores[row : row + 1])[0] for row in range(len(scores))]
    np.testing.assert_array_equal(fitted.calibrate(scores), alone)
