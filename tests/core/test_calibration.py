"""Calibrators: oracles for each, and what holds for every registered one."""

import json
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from kgcore.calibration.base import BoundCalibrator
from kgcore.calibration.isotonic import Isotonic
from kgcore.calibration.platt import Platt, fit_sigmoid
from kgcore.calibration.sample import CalibrationSample, base_rate_weights, ground_truth_sample, synthetic_sample
from kgcore.errors import FitError, InputError, MismatchError
from kgcore.metrics.proper import brier
from kgcore.registries import CALIBRATORS

FITTED = [name for name in CALIBRATORS.names() if name not in ("uncalibrated", "base_rate")]
# a row that weighs twice is no two rows where rows are counted: what holds instead is in test_calibrator_family.py
COUNTING = {"platt", "beta", "smoothed_isotonic", "bbq", "venn_abers", "per_relation"}


def drawn(seed: int, n: int = 400, decimals: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Scores and labels whose log-odds are 1.5 f - 0.5."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=n).round(decimals)
    return scores, (rng.random(n) < expit(1.5 * scores - 0.5)).astype(float)


def samples() -> st.SearchStrategy[CalibrationSample]:
    """Small samples with ties, any weights, both labels."""

    @st.composite
    def build(draw: st.DrawFn) -> CalibrationSample:
        n = draw(st.integers(2, 30))
        scores = draw(st.lists(st.integers(-8, 8), min_size=n, max_size=n))
        labels = draw(st.lists(st.integers(0, 1), min_size=n, max_size=n).filter(lambda y: 0 < sum(y) < len(y)))
        weights = draw(st.lists(st.integers(1, 4), min_size=n, max_size=n))
        return CalibrationSample(*(np.array(v, dtype=float) for v in (scores, labels, weights)))

    return build()


GRID = np.linspace(-12, 12, 97)
quiet = pytest.mark.filterwarnings("ignore:the scores rank positives below")


@quiet
@pytest.mark.parametrize("name", CALIBRATORS.names())
@settings(max_examples=60, deadline=None)
@given(sample=samples())
def test_every_calibrator_is_monotone_within_bounds_and_survives_json(name: str, sample: CalibrationSample) -> None:
    fitted = CALIBRATORS.get(name).fit(sample)
    q = fitted.predict(GRID)
    assert ((q >= 0) & (q <= 1)).all()
    assert (np.diff(q) >= -1e-12).all()
    again = CALIBRATORS.get(name).from_parameters(json.loads(json.dumps(fitted.parameters())))
    np.testing.assert_array_equal(again.predict(GRID), q)


@quiet
@pytest.mark.parametrize("name", CALIBRATORS.names())
@settings(max_examples=60, deadline=None)
@given(sample=samples(), seed=st.integers(0, 99), scale=st.floats(0.01, 100))
def test_order_and_scale_of_weights_change_nothing(name, sample, seed, scale) -> None:
    fit = CALIBRATORS.get(name).fit
    order = np.random.default_rng(seed).permutation(len(sample.scores))
    shuffled = CalibrationSample(sample.scores[order], sample.labels[order], sample.weights[order] * scale)
    np.testing.assert_allclose(fit(shuffled).predict(GRID), fit(sample).predict(GRID), atol=1e-6)


@pytest.mark.parametrize("name", sorted(set(FITTED) - COUNTING))
@settings(max_examples=60, deadline=None)
@given(sample=samples())
def test_weighting_is_duplicating(name: str, sample: CalibrationSample) -> None:
    if name == "temperature":  # which counts rows where the sign of the score separates the labels
        assume(((sample.scores > 0) != (sample.labels == 1))[sample.scores != 0].any())
    fit, times = CALIBRATORS.get(name).fit, np.rint(sample.weights / sample.weights.min()).astype(int)
    exact = CalibrationSample(sample.scores, sample.labels, times.astype(float))
    copies = CalibrationSample(np.repeat(sample.scores, times), np.repeat(sample.labels, times), np.ones(times.sum()))
    np.testing.assert_allclose(fit(copies).predict(GRID), fit(exact).predict(GRID), atol=1e-9)


@settings(max_examples=60, deadline=None)
@given(sample=samples(), seed=st.integers(0, 99))
def test_weighting_is_duplicating_in_platt_but_for_the_smoothing(sample: CalibrationSample, seed: int) -> None:
    times = np.random.default_rng(seed).integers(1, 4, len(sample.scores))
    x, t = sample.scores / 8, np.where(sample.labels == 1, 0.9, 0.1)
    copied = fit_sigmoid(np.repeat(x, times), np.repeat(t, times), np.ones(times.sum()))
    a, b = fit_sigmoid(x, t, times.astype(float))
    if len(np.unique(x)) > 1:  # else only a x + b is determined
        np.testing.assert_allclose((a, b), copied, atol=1e-5)


@pytest.mark.parametrize("name", sorted(set(FITTED) - {"temperature"}))  # which can move no base rate
def test_every_calibrator_repairs_a_known_distortion(name: str) -> None:
    scores, labels = drawn(1, 4000)
    fresh, truth = drawn(2, 4000)
    for distort in (lambda f: 4 * f + 3, lambda f: f / 10 - 5, lambda f: f**3):
        fitted = CALIBRATORS.get(name).fit(ground_truth_sample(distort(scores), labels))
        before = brier(expit(distort(fresh)), truth)
        after = brier(fitted.predict(distort(fresh)), truth)
        best = brier(expit(1.5 * fresh - 0.5), truth)
        assert after < before
        assert after < best + (0.03 if distort(2.0) == 8 else 0.005)


def test_platt_is_the_weighted_optimum_of_another_optimiser(rng: np.random.Generator) -> None:
    scores, labels = drawn(3)
    scores, weights = 50 * scores - 900, rng.uniform(0.1, 5, 400)
    sample = CalibrationSample(scores, labels, weights)
    platt = Platt.fit(sample)
    n, m = labels.sum(), (1 - labels).sum()
    targets = np.where(labels == 1, (n + 1) / (n + 2), 1 / (m + 2))

    def loss(theta):
        z = theta[0] * (scores + 900) / 50 + theta[1]
        return np.average(np.logaddexp(0, z) - targets * z, weights=weights)

    best = minimize(loss, [0, 0], method="BFGS", options={"gtol": 1e-10})
    assert platt.a == pytest.approx(best.x[0] / 50, rel=1e-5)
    assert platt.b == pytest.approx(best.x[1] + 18 * best.x[0], rel=1e-5)
    assert np.average(platt.predict(scores), weights=weights) == pytest.approx(
        np.average(targets, weights=weights), abs=1e-9
    )


def test_the_sigmoid_is_logistic_regression_without_penalty() -> None:
    scores, labels = drawn(4)
    reference = LogisticRegression(C=1e12, tol=1e-12, max_iter=1000).fit(scores[:, None], labels)
    a, b = fit_sigmoid(scores, labels.clip(1e-12, 1 - 1e-12), np.ones(400))
    assert (a, b) == pytest.approx((reference.coef_[0, 0], reference.intercept_[0]), rel=1e-4)


def test_smoothing_takes_unweighted_counts_and_keeps_separable_data_finite() -> None:
    scores, labels = np.array([-2.0, -1, 1, 2]), np.array([0.0, 0, 1, 1])
    light = Platt.fit(CalibrationSample(scores, labels, np.ones(4)))
    heavy = Platt.fit(CalibrationSample(scores, labels, np.full(4, 1000.0)))
    assert (light.a, light.b) == pytest.approx((heavy.a, heavy.b))
    assert 0.6 < light.predict(np.array([1.5]))[0] < 0.9  # the target is (2 + 1) / (2 + 2)


def test_platt_of_inverted_or_equal_scores_is_the_base_rate() -> None:
    scores, labels = drawn(5)
    with pytest.warns(UserWarning, match="rank positives below negatives"):
        inverted = Platt.fit(ground_truth_sample(-scores, labels))
    assert inverted.a == 0
    assert inverted.predict(np.array([0.0]))[0] == pytest.approx(labels.mean(), abs=0.01)
    assert Platt.fit(ground_truth_sample(np.zeros(400), labels)).a == 0


def test_isotonic_is_scikit_learns(rng: np.random.Generator) -> None:
    scores, labels = drawn(6, 500, decimals=1)  # with ties
    weights = rng.uniform(0.1, 5, 500)
    ours = Isotonic.fit(CalibrationSample(scores, labels, weights))
    reference = IsotonicRegression(out_of_bounds="clip").fit(scores, labels, sample_weight=weights)
    np.testing.assert_allclose(ours.predict(GRID), reference.predict(GRID), atol=1e-9)
    assert len(ours.scores) < len(np.unique(scores))


def test_isotonic_by_hand() -> None:
    sample = CalibrationSample(np.array([1.0, 2, 2, 3, 4]), np.array([0.0, 1, 0, 0, 1]), np.array([1.0, 1, 1, 2, 1]))
    fitted = Isotonic.fit(sample)
    np.testing.assert_allclose(fitted.predict(np.array([0, 1, 2, 3, 3.5, 4, 9])), [0, 0, 0.25, 0.25, 0.625, 1, 1])


@given(st.integers(1, 50), st.integers(1, 500), st.floats(0.001, 0.999))
def test_weights_reach_the_base_rate_whatever_eta_was(positives: int, negatives: int, alpha: float) -> None:
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
    with pytest.raises(FitError, match="one kind only"):
        ground_truth_sample(np.arange(3.0), np.ones(3))
    with pytest.raises(InputError, match="not finite"):
        ground_truth_sample(np.array([1.0, np.nan]), np.array([0.0, 1]))
    with pytest.raises(InputError, match="labels are 0"):
        ground_truth_sample(np.array([1.0, 2]), np.array([-1.0, 1]))
    with pytest.raises(InputError, match="of one length"):
        ground_truth_sample(np.arange(3.0), np.ones(2))
    with pytest.raises(InputError, match="positive"):
        CalibrationSample(np.arange(2.0), np.array([0.0, 1]), np.array([1.0, 0]))


def test_a_calibrator_refuses_the_scores_of_another_model() -> None:
    scores, labels = drawn(7)
    bound = BoundCalibrator(
        "platt", "synthetic", 0.5, "a" * 64, "d" * 64, Platt.fit(ground_truth_sample(scores, labels))
    )
    again = BoundCalibrator.from_json(json.loads(json.dumps(bound.to_json())))
    np.testing.assert_array_equal(again.predict(scores, "a" * 64), bound.predict(scores, "a" * 64))
    assert again.label == "synthetic.platt"
    with pytest.raises(
        MismatchError, match=r"synthetic\.platt is of model aaaaaaaaaaaa, these scores are of model bbb"
    ):
        again.predict(scores, "b" * 64)
    with pytest.raises(InputError, match="format 99"):
        BoundCalibrator.from_json(bound.to_json() | {"format": 99})
