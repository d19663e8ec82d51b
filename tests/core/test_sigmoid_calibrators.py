"""Platt scaling, beta calibration and temperature scaling against other optimisers, other packages and hand numbers."""

import math
import warnings

import numpy as np
import pytest
from betacal import BetaCalibration
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from kgcore.calibrate import beta, logistic
from kgcore.calibrate.beta import BENDS, Beta, best_bend, features
from kgcore.calibrate.logistic import fit_logistic, mean_keeping_targets, smoothed_targets
from kgcore.calibrate.platt import Platt
from kgcore.calibrate.sample import CalibrationSample, ground_truth_sample, synthetic_sample
from kgcore.calibrate.temperature import Temperature
from kgcore.errors import FitError
from kgcore.measure.metrics.proper import log_loss
from tests.core.calibrator_samples import GRID, drawn, quiet, samples

# Platt scaling


def test_platt_finds_the_weighted_optimum_of_another_optimiser(rng: np.random.Generator) -> None:
    scores, labels = drawn(3)
    scores, weights = 50 * scores - 900, rng.uniform(0.1, 5, 400)
    sample = CalibrationSample(scores, labels, weights)
    platt = Platt().fit_sample(sample)
    n, m = labels.sum(), (1 - labels).sum()
    targets = np.where(labels == 1, (n + 1) / (n + 2), 1 / (m + 2))

    def loss(theta: np.ndarray) -> float:
        z = theta[0] * (scores + 900) / 50 + theta[1]
        return float(np.average(np.logaddexp(0, z) - targets * z, weights=weights))

    best = minimize(loss, [0, 0], method="BFGS", options={"gtol": 1e-10})
    assert platt.a_ == pytest.approx(best.x[0] / 50, rel=1e-5)
    assert platt.b_ == pytest.approx(best.x[1] + 18 * best.x[0], rel=1e-5)
    assert np.average(platt.calibrate(scores), weights=weights) == pytest.approx(
        np.average(targets, weights=weights), abs=1e-9
    )


def test_the_sigmoid_is_logistic_regression_without_penalty() -> None:
    scores, labels = drawn(4)
    reference = LogisticRegression(C=1e12, tol=1e-12, max_iter=1000).fit(scores[:, None], labels)
    design, targets = np.stack([scores, np.ones(400)]), labels.clip(1e-12, 1 - 1e-12)
    a, b = fit_logistic("a test", design, targets, np.ones(400), np.zeros(2), np.zeros(2, dtype=bool))
    assert (a, b) == pytest.approx((reference.coef_[0, 0], reference.intercept_[0]), rel=1e-4)


def test_smoothing_uses_unweighted_counts_and_keeps_separable_data_finite() -> None:
    scores, labels = np.array([-2.0, -1, 1, 2]), np.array([0.0, 0, 1, 1])
    light = Platt().fit_sample(CalibrationSample(scores, labels, np.ones(4)))
    heavy = Platt().fit_sample(CalibrationSample(scores, labels, np.full(4, 1000.0)))
    assert (light.a_, light.b_) == pytest.approx((heavy.a_, heavy.b_))
    assert 0.6 < light.calibrate(np.array([1.5]))[0] < 0.9  # the target is (2 + 1) / (2 + 2)


def test_platt_of_inverted_or_equal_scores_is_the_base_rate() -> None:
    scores, labels = drawn(5)
    with pytest.warns(UserWarning, match="rank positives below negatives"):
        inverted = Platt().fit_sample(ground_truth_sample(-scores, labels))
    assert inverted.a_ == 0
    assert inverted.calibrate(np.array([0.0]))[0] == pytest.approx(labels.mean(), abs=0.01)
    assert Platt().fit_sample(ground_truth_sample(np.zeros(400), labels)).a_ == 0


# Beta calibration


def as_weighted_labels(targets: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Convert soft targets t of weight w to hard labels: 1 with weight w t, and 0 with weight w (1 - t)."""
    return np.repeat([1.0, 0.0], len(targets)), np.r_[weights * targets, weights * (1 - targets)]


def test_beta_is_logistic_regression_on_the_logarithms(rng: np.random.Generator) -> None:
    scores, labels = drawn(1, 2000)
    sample = CalibrationSample(10 * scores - 70, labels, rng.uniform(0.1, 5, len(labels)))
    fitted = Beta().fit_sample(sample)
    p = expit(fitted.slope_ * sample.scores + fitted.intercept_)
    y, w = as_weighted_labels(mean_keeping_targets(labels, sample.weights), sample.weights)
    x = np.tile(np.stack([np.log(p), -np.log(1 - p)], axis=1), (2, 1))
    reference = LogisticRegression(C=np.inf, tol=1e-12, solver="newton-cholesky", max_iter=1000).fit(x, y, w)
    assert [fitted.a_, fitted.b_] == pytest.approx(reference.coef_[0], rel=1e-6)
    assert fitted.c_ == pytest.approx(reference.intercept_[0], rel=1e-6)
    assert min(fitted.a_, fitted.b_) > 0.5


@pytest.mark.parametrize("direction", [1, -1])
def test_beta_agrees_with_the_published_package_where_a_slope_is_0(direction: int) -> None:
    """On one side of 0, positives rank below negatives. The slope of that side is 0, and the other parameters adapt."""
    rng = np.random.default_rng(3)
    scores = rng.normal(size=2000)
    odds = np.where(direction * scores < 0, -0.8, 2.0) * direction * scores - 1
    labels = (rng.random(2000) < expit(direction * odds)).astype(float)
    sample = ground_truth_sample(scores, labels)
    fitted = Beta().fit_sample(sample)
    assert (fitted.a_ == 0) == (direction == 1)
    assert (fitted.b_ == 0) == (direction == -1)
    y, w = as_weighted_labels(mean_keeping_targets(labels, sample.weights), sample.weights)
    with warnings.catch_warnings():  # the package changes the warning filters
        p = expit(fitted.slope_ * scores + fitted.intercept_)
        published = BetaCalibration().fit(np.tile(p, 2), y, sample_weight=w).predict(p)
    np.testing.assert_allclose(
        fitted.calibrate(scores), published, atol=2e-3
    )  # the optimiser of the package stops early


@quiet
@settings(max_examples=100)
@given(sample=samples())
def test_beta_finds_the_optimum_within_its_bounds(sample: CalibrationSample) -> None:
    fitted = Beta().fit_sample(sample)
    design = features(fitted.slope_ * sample.scores + fitted.intercept_)
    targets = mean_keeping_targets(sample.labels, sample.weights)

    def loss(theta: np.ndarray) -> float:
        z = theta @ design
        return float(np.average(np.logaddexp(0, z) - targets * z, weights=sample.weights))

    found = np.array([fitted.a_, fitted.b_, fitted.c_])
    assert (found[:2] >= 0).all()
    best = minimize(loss, found + 0.1, method="L-BFGS-B", bounds=[(0, None), (0, None), (None, None)])
    assert loss(found) <= best.fun + 1e-9
    q = expit(fitted.slope_ * sample.scores + fitted.intercept_)  # a = b = 1, c = 0
    assert loss(found) <= -np.average(targets * np.log(q) + (1 - targets) * np.log1p(-q), weights=sample.weights) + 1e-9


def test_beta_of_inverted_scores_is_the_base_rate() -> None:
    scores, labels = drawn(5)
    with pytest.warns(UserWarning, match="beta calibration gives the constant base rate"):
        inverted = Beta().fit_sample(ground_truth_sample(-scores, labels))
    assert inverted.calibrate(np.array([3.0]))[0] == pytest.approx(labels.mean(), abs=1e-9)


@pytest.mark.parametrize(
    ("scores", "labels"),
    [
        ([0.0] * 13 + [1.0, -26669.0], [0.0] * 13 + [1.0, 0.0]),  # the best slope is at its bound
        ([9999.2, 10000.5, 0.5, 1.2], [1.0, 1, 0, 0]),  # a step away from the bound seems better only by rounding
    ],
)
def test_beta_converges_where_one_score_is_far_from_the_others(scores: list[float], labels: list[float]) -> None:
    q = Beta().fit_sample(ground_truth_sample(np.array(scores), np.array(labels))).calibrate(np.sort(scores))
    assert q.mean() == pytest.approx(np.mean(labels), abs=1e-9)


def test_beta_with_a_slope_of_0_accepts_the_largest_scores() -> None:
    np.testing.assert_allclose(
        Beta().set_fitted(a=0, b=1, c=0, slope=1e10, intercept=0).calibrate(np.array([-1e300, 0, 1e300])),
        [0.5, 2 / 3, 1],
    )


def test_a_fit_that_does_not_converge_raises() -> None:
    x = np.array([[-1.0, 1.0]])
    with pytest.raises(FitError, match=r"mine did not converge in 200 steps.*e"):
        fit_logistic("mine", 1e-3 * x, np.array([0.0, 1.0]), np.ones(2), np.full(1, np.nan), np.zeros(1, dtype=bool))


# Temperature scaling


@settings(max_examples=200)
@given(sample=samples(), centre=st.integers(-6, 6))
def test_temperature_is_never_worse_than_no_calibration_on_its_sample(sample: CalibrationSample, centre: int) -> None:
    sample = CalibrationSample(sample.scores - centre, sample.labels, sample.weights)
    fitted = Temperature().fit_sample(sample)

    def loss(inverse: float) -> float:
        z = (2 * sample.labels - 1) * inverse * sample.scores
        return float(np.average(np.logaddexp(0, -z), weights=sample.weights))

    assert loss(fitted.inverse_) <= loss(1.0) + 1e-9


def test_temperature_finds_the_optimum_of_another_optimiser(rng: np.random.Generator) -> None:
    scores, labels = drawn(8)
    sample = CalibrationSample(7 * scores, labels, rng.uniform(0.1, 5, len(labels)))
    z = (2 * labels - 1) * sample.scores
    best = minimize_scalar(lambda t: np.average(np.logaddexp(0, -z / t), weights=sample.weights), bounds=(0.1, 50))
    assert 1 / Temperature().fit_sample(sample).inverse_ == pytest.approx(best.x, rel=1e-4)


def test_temperature_by_hand() -> None:
    """Four of five signs are right at |f| = 2: sigmoid(2 / T) = 4 / 5, so T = 2 / ln 4."""
    fitted = Temperature().fit_sample(ground_truth_sample(np.array([2.0, 2, 2, 2, -2]), np.array([1.0, 1, 1, 0, 0])))
    assert 1 / fitted.inverse_ == pytest.approx(2 / math.log(4))
    inverted = Temperature().fit_sample(ground_truth_sample(np.array([-1.0, 1.0]), np.array([1.0, 0.0])))
    assert inverted.inverse_ == 0  # T is infinite
    np.testing.assert_array_equal(inverted.calibrate(GRID), 0.5)


@pytest.mark.parametrize("size", [0.01, 1.0, 100.0])
def test_the_temperature_stays_finite_where_the_sign_separates_the_labels(size: float) -> None:
    scores = size * np.array([-2.0, -1, 0, 1, 2])
    fitted = Temperature().fit_sample(ground_truth_sample(scores, np.array([0.0, 0, 1, 1, 1])))
    assert max(1, 0.1 / size) < fitted.inverse_ + 1e-12 < max(1.1, 2 / size)


@pytest.mark.parametrize("alpha", [0.5, 1e-2, 1e-4])
def test_beta_keeps_the_base_rate_in_the_mean(alpha: float, rng: np.random.Generator) -> None:
    sample = synthetic_sample(rng.normal(2, 1, 100), rng.normal(0, 1, 2000), alpha)
    q = Beta().fit_sample(sample).calibrate(sample.scores)
    assert np.average(q, weights=sample.weights) == pytest.approx(alpha, rel=1e-4)


def test_targets_that_keep_the_mean_are_platts_for_balanced_samples() -> None:
    labels = np.repeat([0.0, 1.0], 30)
    np.testing.assert_allclose(mean_keeping_targets(labels, np.full(60, 3.0)), smoothed_targets(labels))
    weights = np.where(labels == 1, 0.01, 0.99)
    found = mean_keeping_targets(labels, weights)  # c = 2 / 32
    np.testing.assert_allclose(found[[0, -1]], [0.01 / 16, 15 / 16 + 0.01 / 16])
    assert np.average(found, weights=weights) == pytest.approx(0.01)


def test_beta_converges_on_inverted_scores_at_a_low_base_rate() -> None:
    """Without a sufficient decrease, a step ends where the loss is flat, and the next ones jump from side to side."""
    scores = np.repeat([0.0, 1.0], [11, 14])
    weights = np.r_[np.full(7, 0.01282709), np.full(3, 0.02565418), 0.20523345, np.full(13, 1.64186762), 3.28373525]
    with pytest.warns(UserWarning, match="beta calibration gives the constant base rate"):
        fitted = Beta().fit_sample(CalibrationSample(scores, 1 - scores, weights))
    assert fitted.calibrate(np.array([0.5]))[0] == pytest.approx(weights[:11].sum() / weights.sum())


@pytest.mark.parametrize("floor", [0.02, 0.3])
def test_beta_finds_a_bend_that_is_not_where_platt_scaling_is_one_half(
    floor: float, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = rng.normal(size=20_000)
    truth = floor + (0.99 - floor) * expit(4 * scores - 2)  # flat below, as if some facts were not learned
    labels = (rng.random(len(scores)) < truth).astype(float)
    sample, best = ground_truth_sample(scores, labels), log_loss(truth, labels)
    found = log_loss(Beta().fit_sample(sample).calibrate(scores), labels) - best
    monkeypatch.setattr(beta, "BENDS", np.array([]))
    assert found < 0.6 * (log_loss(Beta().fit_sample(sample).calibrate(scores), labels) - best)


def test_the_bend_minimises_the_loss_among_the_places_that_are_tried(rng: np.random.Generator) -> None:
    z = rng.normal(0, 3, 4000)
    targets = 0.1 + 0.89 * expit(2 * z - 3)
    weights = rng.uniform(0.5, 2, len(z))

    def loss(m: float) -> float:
        design = features(z - m)
        start, bounded = np.array([1.0, 1.0, 0.0]), np.array([True, True, False])
        u = fit_logistic("", design, targets, weights, start, bounded) @ design
        return float(np.average(np.logaddexp(0, u) - targets * u, weights=weights))

    chosen = best_bend(z, targets, weights)
    assert chosen != 0
    assert loss(chosen) <= min(loss(m) for m in (0.0, *np.quantile(z, BENDS))) + 1e-4


@pytest.mark.parametrize("bins", [6, 12])
def test_the_bend_is_chosen_on_the_means_of_bins_of_equal_width(
    bins: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last bin has both of its ends, as in NumPy's histogram."""
    monkeypatch.setattr(beta, "BINS", bins)
    z, weights = rng.uniform(-3, 3, 200), rng.uniform(0.5, 2, 200)
    total, edges = np.histogram(z, bins, weights=weights)
    means = np.histogram(z, edges, weights=weights * z)[0] / total
    places = np.interp(BENDS, (np.cumsum(total) - total / 2) / total.sum(), means)
    chosen = best_bend(z, 0.01 + 0.6 * np.sqrt(expit(4 * (z - 1.5))), weights)  # it saturates at the top
    assert chosen == pytest.approx(places[-1], rel=1e-9)


def test_equal_bends_do_not_depend_on_the_order_of_rows() -> None:
    """With three distinct scores, several bends fit the sample equally well. Rounding must not choose among them."""
    scores, labels = np.r_[np.zeros(9), -1.0, 0, 0, 1], np.repeat([0.0, 1.0], [10, 3])
    weights = np.where(scores == -1, 2.0, 1.0)
    fits = []
    for seed in range(20):
        order = np.random.default_rng(seed).permutation(len(scores))
        fitted = Beta().fit_sample(CalibrationSample(scores[order], labels[order], weights[order]))
        fits.append(fitted.calibrate(np.array([-12.0]))[0])
    np.testing.assert_allclose(fits, fits[0], atol=1e-6)


def test_blocks_of_rows_do_not_change_a_fit(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    f = rng.normal(size=500)
    labels = (rng.random(500) < expit(2 * f)).astype(float)
    design, bounded = np.stack([f, -np.abs(f), np.ones(500)]), np.array([True, True, False])
    fits = []
    for block in (2**15, 7):
        monkeypatch.setattr(logistic, "BLOCK", block)
        fits.append(fit_logistic("a test", design, labels, np.full(500, 0.3), np.zeros(3), bounded))
    assert fits[1] == pytest.approx(fits[0], abs=1e-9)


@pytest.mark.parametrize(("zeros", "far", "far_weight", "heavy"), [(20, 42, 0.01, 200), (3, 60, 0.01, 20)])
def test_a_far_negative_of_little_weight_is_fitted(zeros: int, far: float, far_weight: float, heavy: float) -> None:
    """Bends half-way to the far score make all other probabilities equal: the loss is flat there."""
    scores, labels = np.r_[np.zeros(zeros), far, 2, 0], np.repeat([0.0, 1.0], [zeros + 1, 2])
    weights = np.r_[np.ones(zeros), far_weight, heavy, 1]
    fitted = Beta().fit_sample(CalibrationSample(scores, labels, weights))
    base_rate = np.average(labels, weights=weights)
    assert np.average(fitted.calibrate(scores), weights=weights) == pytest.approx(base_rate, abs=1e-8)


@pytest.mark.parametrize("start", [(0, -60), (0, 300), (30, 40)])
def test_a_fit_converges_from_a_start_where_the_loss_is_flat(start: tuple[float, float]) -> None:
    x = np.linspace(-1, 1, 50)
    design, free = np.stack([x, np.ones(50)]), np.zeros(2, dtype=bool)
    found = fit_logistic("a test", design, expit(3 * x - 1), np.ones(50), np.array(start, dtype=float), free)
    np.testing.assert_allclose(found, [3, -1], atol=1e-8)
