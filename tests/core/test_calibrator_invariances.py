"""Changes that must not change a fit: the order of rows, the scale of weights, weights instead of repeated rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from kgcore.calibrate.beta import features
from kgcore.calibrate.calibrated import stored_class
from kgcore.calibrate.isotonic import Isotonic
from kgcore.calibrate.logistic import fit_logistic
from kgcore.calibrate.sample import CalibrationSample, ground_truth_sample, shift
from kgcore.calibrate.venn_abers import VennAbers
from kgcore.registries import CALIBRATORS
from tests.core.calibrator_samples import COUNTING, EVERY, GRID, drawn, quiet, samples


@quiet
@settings(max_examples=60)
@given(sample=samples(), seed=st.integers(0, 99), scale=st.floats(0.01, 100))
def test_the_order_of_rows_and_the_scale_of_weights_do_not_matter(
    sample: CalibrationSample, seed: int, scale: float
) -> None:
    order = np.random.default_rng(seed).permutation(len(sample.scores))
    shuffled = CalibrationSample(sample.scores[order], sample.labels[order], sample.weights[order] * scale)
    for name in EVERY:
        fit = stored_class(name)().fit_sample
        np.testing.assert_allclose(fit(shuffled).calibrate(GRID), fit(sample).calibrate(GRID), atol=1e-6, err_msg=name)


@settings(max_examples=60)
@given(sample=samples())
def test_weighting_equals_duplicating(sample: CalibrationSample) -> None:
    times = np.rint(sample.weights / sample.weights.min()).astype(int)
    exact = CalibrationSample(sample.scores, sample.labels, times.astype(float))
    copies = CalibrationSample(np.repeat(sample.scores, times), np.repeat(sample.labels, times), np.ones(times.sum()))
    separated = ((sample.scores > 0) == (sample.labels == 1))[sample.scores != 0].all()
    names = set(CALIBRATORS.names()) - COUNTING
    if separated:  # by the sign of the score: temperature scaling counts rows
        names.remove("temperature")
    for name in names:
        fit = CALIBRATORS.get(name)().fit_sample
        np.testing.assert_allclose(fit(copies).calibrate(GRID), fit(exact).calibrate(GRID), atol=1e-9, err_msg=name)


def sigmoid(x: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return slope and intercept of the logistic regression of targets on x."""
    design, free = np.stack([x, np.ones_like(x)]), np.zeros(2, dtype=bool)
    return fit_logistic("a test", design, targets, weights, np.zeros(2), free)


@settings(max_examples=60)
@given(sample=samples(), seed=st.integers(0, 99))
def test_weighting_equals_duplicating_in_platt_for_fixed_targets(sample: CalibrationSample, seed: int) -> None:
    times = np.random.default_rng(seed).integers(1, 4, len(sample.scores))
    x, t = sample.scores / 8, np.where(sample.labels == 1, 0.9, 0.1)
    copied = sigmoid(np.repeat(x, times), np.repeat(t, times), np.ones(times.sum()))
    a, b = sigmoid(x, t, times.astype(float))
    if len(np.unique(x)) > 1:  # otherwise the sample determines only the sum a x + b
        np.testing.assert_allclose((a, b), copied, atol=1e-5)


@settings(max_examples=60)
@given(sample=samples(), seed=st.integers(0, 99))
def test_weighting_equals_duplicating_in_beta_for_fixed_targets(sample: CalibrationSample, seed: int) -> None:
    times = np.random.default_rng(seed).integers(1, 4, len(sample.scores))
    design, targets = features(sample.scores / 4), np.where(sample.labels == 1, 0.9, 0.1)
    settings = {"start": np.zeros(3), "bounded": np.array([True, True, False])}
    weighted = fit_logistic("beta", design, targets, times.astype(float), **settings)
    design, targets = np.repeat(design, times, axis=1), np.repeat(targets, times)
    copied = fit_logistic("beta", design, targets, np.ones(times.sum()), **settings)
    np.testing.assert_allclose(expit(weighted @ design), expit(copied @ design), atol=1e-6)


@pytest.mark.parametrize("name", ["smoothed_isotonic", "bbq"])
def test_copies_are_more_evidence_but_weights_are_not(name: str) -> None:
    scores, labels = drawn(13, 60)
    fit, times = CALIBRATORS.get(name)().fit_sample, 50
    once = fit(ground_truth_sample(scores, labels)).calibrate(scores)
    heavy = fit(CalibrationSample(scores, labels, np.full(60, float(times)))).calibrate(scores)
    copies = fit(ground_truth_sample(np.repeat(scores, times), np.repeat(labels, times))).calibrate(scores)
    np.testing.assert_allclose(heavy, once, atol=1e-12)
    plain = Isotonic().fit_sample(ground_truth_sample(scores, labels)).calibrate(scores)
    assert np.abs(copies - plain).mean() < np.abs(once - plain).mean()


@settings(max_examples=60)
@given(sample=samples())
def test_the_weight_of_a_label_changes_only_the_base_rate_of_venn_abers(sample: CalibrationSample) -> None:
    y = sample.labels
    heavier = CalibrationSample(sample.scores, y, np.where(y == 1, 3 * sample.weights, sample.weights))
    moved = [shift(p, sample.base_rate, heavier.base_rate) for p in VennAbers().fit_sample(sample).interval(GRID)]
    np.testing.assert_allclose(VennAbers().fit_sample(heavier).interval(GRID), moved, atol=1e-9)
