"""The calibrators beyond Platt and isotonic: an oracle for each, and what holds where a row's weight is no count."""

import json
import math
import warnings
from collections import defaultdict
from itertools import product

import numpy as np
import pytest
from betacal import BetaCalibration
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from venn_abers import VennAbers as PublishedVennAbers

from kgcore.calibration.baselines.uncalibrated import Uncalibrated
from kgcore.calibration.bbq import BBQ, log_evidence
from kgcore.calibration.beta import Beta, features
from kgcore.calibration.centred_isotonic import CentredIsotonic
from kgcore.calibration.histogram import Histogram
from kgcore.calibration.isotonic import Isotonic
from kgcore.calibration.logistic import fit_logistic, smoothed_targets
from kgcore.calibration.platt import Platt
from kgcore.calibration.sample import CalibrationSample, ground_truth_sample, synthetic_sample
from kgcore.calibration.shift import shift
from kgcore.calibration.smoothed_isotonic import SmoothedIsotonic
from kgcore.calibration.steps import equal_mass
from kgcore.calibration.temperature import Temperature
from kgcore.calibration.venn_abers import VennAbers
from kgcore.errors import FitError
from kgcore.metrics.proper import log_loss
from kgcore.registries import CALIBRATORS
from tests.core.test_calibration import FITTED, GRID, drawn, quiet, samples


def bent(seed: int, n: int = 600) -> tuple[np.ndarray, np.ndarray]:
    """Scores and labels whose log-odds rise three times as steeply below 0 as above."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=n)
    return scores, (rng.random(n) < expit(np.where(scores < 0, 3 * scores, scores))).astype(float)


def any_scores() -> st.SearchStrategy[CalibrationSample]:
    """Samples of any finite size and spacing of scores, with any weights."""

    @st.composite
    def build(draw: st.DrawFn) -> CalibrationSample:
        n = draw(st.integers(2, 25))
        scores = draw(st.lists(st.floats(-1e6, 1e6), min_size=n, max_size=n))
        scores = [score if abs(score) > 1e-100 else 0.0 for score in scores]  # nearer ones have no slope between them
        labels = draw(st.lists(st.integers(0, 1), min_size=n, max_size=n).filter(lambda y: 0 < sum(y) < len(y)))
        weights = draw(st.lists(st.floats(0.001, 1000), min_size=n, max_size=n))
        return CalibrationSample(*(np.array(v, dtype=float) for v in (scores, labels, weights)))

    return build()


@quiet
@pytest.mark.parametrize("name", FITTED)
@settings(max_examples=150, deadline=None)
@given(sample=any_scores())
def test_any_finite_scores_are_fitted(name: str, sample: CalibrationSample) -> None:
    fitted = CALIBRATORS.get(name).fit(sample)
    asked = np.sort(np.r_[sample.scores, (sample.scores[1:] + sample.scores[:-1]) / 2, -1e300, -1e7, 0, 1e7, 1e300])
    q = fitted.predict(asked)
    assert ((q >= 0) & (q <= 1)).all()
    assert (np.diff(q) >= -1e-12).all()
    again = CALIBRATORS.get(name).from_parameters(json.loads(json.dumps(fitted.parameters(), allow_nan=False)))
    np.testing.assert_array_equal(again.predict(asked), q)


@quiet
@pytest.mark.parametrize("name", FITTED)
@pytest.mark.parametrize("scores", [[-1.0, 1.0], [1.0, -1.0], [0.1, 0.1], [0.0, 0.0], [2.0, 3.0], [-3.0, -2.0]])
def test_one_positive_and_one_negative_are_enough(name: str, scores: list[float]) -> None:
    q = CALIBRATORS.get(name).fit(ground_truth_sample(np.array(scores), np.array([0.0, 1.0]))).predict(GRID)
    assert np.isfinite(q).all()
    assert (np.diff(q) >= -1e-12).all()


@pytest.mark.parametrize("name", sorted(set(FITTED) - {"temperature"}))
@pytest.mark.parametrize("value", [0.0, 0.1, -1e6])
def test_equal_scores_have_the_base_rate(name: str, value: float) -> None:
    sample = synthetic_sample(np.full(40, value), np.full(400, value), 0.3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        q = CALIBRATORS.get(name).fit(sample).predict(np.array([value]))
    assert q[0] == pytest.approx(0.3, abs=0.02)


@pytest.mark.parametrize("name", FITTED)
def test_no_calibrator_changes_its_sample(name: str) -> None:
    scores, labels = drawn(20)
    sample = ground_truth_sample(scores, labels)
    kept = [array.copy() for array in (sample.scores, sample.labels, sample.weights)]
    CALIBRATORS.get(name).fit(sample).predict(sample.scores)
    for before, after in zip(kept, (sample.scores, sample.labels, sample.weights), strict=True):
        np.testing.assert_array_equal(before, after)


# Beta


def doubled(targets: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A soft target t of weight w as labels: 1 with weight w t, 0 with weight w (1 - t)."""
    return np.repeat([1.0, 0.0], len(targets)), np.r_[weights * targets, weights * (1 - targets)]


def test_beta_is_logistic_regression_without_penalty_on_the_logarithms(rng: np.random.Generator) -> None:
    scores, labels = drawn(1, 2000)
    sample = CalibrationSample(10 * scores - 70, labels, rng.uniform(0.1, 5, len(labels)))
    fitted = Beta.fit(sample)
    p = Platt.fit(sample).predict(sample.scores)
    y, w = doubled(smoothed_targets(labels), sample.weights)
    x = np.tile(np.stack([np.log(p), -np.log(1 - p)], axis=1), (2, 1))
    reference = LogisticRegression(C=np.inf, tol=1e-12, solver="newton-cholesky", max_iter=1000).fit(x, y, w)
    assert [fitted.a, fitted.b] == pytest.approx(reference.coef_[0], rel=1e-6)
    assert fitted.c == pytest.approx(reference.intercept_[0], rel=1e-6)
    assert min(fitted.a, fitted.b) > 0.5


@pytest.mark.parametrize("direction", [1, -1])
def test_beta_is_the_published_package_where_a_slope_is_none(direction: int) -> None:
    """On the one side positives rank below negatives: that slope is 0, and the others are fitted anew."""
    rng = np.random.default_rng(3)
    scores = rng.normal(size=2000)
    odds = np.where(direction * scores < 0, -0.8, 2.0) * direction * scores - 1
    labels = (rng.random(2000) < expit(direction * odds)).astype(float)
    sample = ground_truth_sample(scores, labels)
    fitted = Beta.fit(sample)
    assert (fitted.a == 0) == (direction == 1)
    assert (fitted.b == 0) == (direction == -1)
    y, w = doubled(smoothed_targets(labels), sample.weights)
    with warnings.catch_warnings():  # it changes the filters
        p = Platt.fit(sample).predict(scores)
        published = BetaCalibration().fit(np.tile(p, 2), y, sample_weight=w).predict(p)
    np.testing.assert_allclose(fitted.predict(scores), published, atol=2e-3)  # its optimiser stops early


@quiet
@settings(max_examples=100, deadline=None)
@given(sample=samples())
def test_beta_is_the_optimum_within_its_bounds(sample: CalibrationSample) -> None:
    fitted = Beta.fit(sample)
    design = features(fitted.slope * sample.scores + fitted.intercept)
    targets = smoothed_targets(sample.labels)

    def loss(theta: np.ndarray) -> float:
        z = theta @ design
        return float(np.average(np.logaddexp(0, z) - targets * z, weights=sample.weights))

    found = np.array([fitted.a, fitted.b, fitted.c])
    assert (found[:2] >= 0).all()
    best = minimize(loss, found + 0.1, method="L-BFGS-B", bounds=[(0, None), (0, None), (None, None)])
    assert loss(found) <= best.fun + 1e-9
    platt = Platt.fit(sample)  # a = b is Platt scaling
    q = platt.predict(sample.scores)
    assert loss(found) <= -np.average(targets * np.log(q) + (1 - targets) * np.log1p(-q), weights=sample.weights) + 1e-9


@settings(max_examples=60, deadline=None)
@given(sample=samples(), seed=st.integers(0, 99))
def test_weighting_is_duplicating_in_beta_but_for_the_smoothing(sample: CalibrationSample, seed: int) -> None:
    times = np.random.default_rng(seed).integers(1, 4, len(sample.scores))
    design, targets = features(sample.scores / 4), np.where(sample.labels == 1, 0.9, 0.1)
    settings = {"start": np.zeros(3), "bounded": np.array([True, True, False])}
    weighted = fit_logistic("beta", design, targets, times.astype(float), **settings)
    design, targets = np.repeat(design, times, axis=1), np.repeat(targets, times)
    copied = fit_logistic("beta", design, targets, np.ones(times.sum()), **settings)
    np.testing.assert_allclose(expit(weighted @ design), expit(copied @ design), atol=1e-6)


def test_beta_of_inverted_scores_is_the_base_rate() -> None:
    scores, labels = drawn(5)
    with pytest.warns(UserWarning, match="beta calibration is the constant base rate"):
        inverted = Beta.fit(ground_truth_sample(-scores, labels))
    assert inverted.predict(np.array([3.0]))[0] == pytest.approx(labels.mean(), abs=0.01)


@pytest.mark.parametrize(
    ("scores", "labels"),
    [
        ([0.0] * 13 + [1.0, -26669.0], [0.0] * 13 + [1.0, 0.0]),  # the best slope meets its bound, a projection zigzags
        ([9999.2, 10000.5, 0.5, 1.2], [1.0, 1, 0, 0]),  # leaving the bound is worth it by rounding only
    ],
)
def test_beta_converges_where_a_score_is_far_off(scores: list[float], labels: list[float]) -> None:
    q = Beta.fit(ground_truth_sample(np.array(scores), np.array(labels))).predict(np.sort(scores))
    targets = smoothed_targets(np.array(labels))[np.argsort(scores, kind="stable")]
    assert q.mean() == pytest.approx(targets.mean(), abs=1e-9)


def test_beta_with_a_slope_of_none_takes_the_largest_scores() -> None:
    np.testing.assert_allclose(Beta(0, 1, 0, 1e10, 0).predict(np.array([-1e300, 0, 1e300])), [0.5, 2 / 3, 1])


def test_a_fit_that_does_not_converge_says_so() -> None:
    x = np.array([[-1.0, 1.0]])
    with pytest.raises(FitError, match=r"mine did not converge in 100 steps.*e"):
        fit_logistic("mine", 1e-3 * x, np.array([0.0, 1.0]), np.ones(2), np.full(1, np.nan), np.zeros(1, dtype=bool))


# Temperature


@settings(max_examples=200, deadline=None)
@given(sample=samples(), centre=st.integers(-6, 6))
def test_temperature_is_never_worse_than_no_calibration_on_its_sample(sample: CalibrationSample, centre: int) -> None:
    sample = CalibrationSample(sample.scores - centre, sample.labels, sample.weights)
    fitted = Temperature.fit(sample)

    def loss(q: np.ndarray) -> float:
        return log_loss(q, sample.labels, sample.weights, clip=1e-300)

    assert loss(fitted.predict(sample.scores)) <= loss(Uncalibrated().predict(sample.scores)) + 1e-9


def test_temperature_is_the_optimum_of_another_optimiser(rng: np.random.Generator) -> None:
    scores, labels = drawn(8)
    sample = CalibrationSample(7 * scores, labels, rng.uniform(0.1, 5, len(labels)))
    best = minimize_scalar(
        lambda t: log_loss(expit(sample.scores / t), labels, sample.weights, clip=1e-15), bounds=(0.1, 50)
    )
    assert 1 / Temperature.fit(sample).inverse == pytest.approx(best.x, rel=1e-4)


def test_temperature_by_hand() -> None:
    """Three of four are right at |f| = 2: sigmoid(2 / T) = 3 / 4, so T = 2 / ln 3."""
    fitted = Temperature.fit(ground_truth_sample(np.array([2.0, 2, 2, 2, -2]), np.array([1.0, 1, 1, 0, 0])))
    assert 1 / fitted.inverse == pytest.approx(2 / math.log(4))  # 4 of 5 with the last
    inverted = Temperature.fit(ground_truth_sample(np.array([-1.0, 1.0]), np.array([1.0, 0.0])))
    assert inverted.inverse == 0  # T is infinite
    np.testing.assert_array_equal(inverted.predict(GRID), 0.5)


@pytest.mark.parametrize("size", [0.01, 1.0, 100.0])
def test_scores_whose_sign_separates_leave_a_finite_temperature(size: float) -> None:
    scores = size * np.array([-2.0, -1, 0, 1, 2])
    fitted = Temperature.fit(ground_truth_sample(scores, np.array([0.0, 0, 1, 1, 1])))
    assert max(1, 0.1 / size) < fitted.inverse + 1e-12 < max(1.1, 2 / size)


# Histogram binning


def test_histogram_by_hand() -> None:
    """Twenty rows in ten bins of two: shares 0, 0, 1/2, 0, 1/2, 1/2, 1/2, 1, 1/2, 1; the third with the fourth and the
    eighth with the ninth are out of order."""
    labels = np.array([0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 1, 1, 0, 1, 1, 1, 0, 1, 1], dtype=float)
    fitted = Histogram.fit(ground_truth_sample(np.arange(20.0), labels))
    want = np.repeat([0, 0.25, 0.5, 0.75, 1], [4, 4, 6, 4, 2])
    np.testing.assert_allclose(fitted.predict(np.arange(20.0)), want)
    np.testing.assert_allclose(fitted.edges, [3.5, 7.5, 13.5, 17.5])
    np.testing.assert_allclose(fitted.predict(np.array([-9, 3.5, 3.6, 99])), [0, 0, 0.25, 1])


def test_histogram_of_shares_that_rise_is_the_quantile_bins_of_numpy() -> None:
    scores, labels = drawn(9, 5000)
    fitted = Histogram.fit(ground_truth_sample(scores, labels))
    place = np.searchsorted(np.quantile(scores, np.arange(0.1, 1, 0.1)), scores)
    shares = np.array([labels[place == b].mean() for b in range(10)])
    assert (np.diff(shares) > 0).all()
    np.testing.assert_allclose(fitted.predict(scores), shares[place], atol=1e-9)


def test_scores_with_no_number_between_them_are_kept_apart() -> None:
    scores = [1.0]
    for _ in range(19):
        scores.append(float(np.nextafter(scores[-1], 2)))
    labels = np.repeat([0.0, 1.0, 0.0, 1.0], [9, 1, 1, 9])
    fitted = Histogram.fit(ground_truth_sample(np.array(scores), labels))
    np.testing.assert_array_equal(fitted.predict(np.array(scores)), np.repeat([0.0, 0.5, 1.0], [8, 4, 8]))


@given(st.lists(st.integers(1, 50), min_size=1, max_size=60), st.integers(1, 30))
def test_bins_are_as_equal_as_whole_scores_allow(weights: list[int], bins: int) -> None:
    w = np.array(weights, dtype=float)
    starts = equal_mass(w, bins)
    assert starts[0] == 0
    assert (np.diff(starts) > 0).all()
    assert len(starts) <= bins
    masses = np.add.reduceat(w, starts)
    assert (masses <= w.sum() / bins + w.max() + 1e-9).all()


# Bayesian binning into quantiles


def test_the_evidence_is_the_integral_over_all_shares() -> None:
    positives, rows, rate = np.array([0.0, 3.0, 5.0]), np.array([4.0, 7.0, 6.0]), 0.3
    want = 0.0
    for m, n in zip(positives, rows, strict=True):
        a, b = rate * 2 / 3, (1 - rate) * 2 / 3
        density = math.gamma(a + b) / (math.gamma(a) * math.gamma(b))
        # u = x^a takes the pole at 0 away, and likewise at 1
        below = quad(lambda u, m=m, n=n, a=a, b=b: u ** (m / a) * (1 - u ** (1 / a)) ** (n - m + b - 1) / a, 0, 0.5**a)
        above = quad(
            lambda u, m=m, n=n, a=a, b=b: (1 - u ** (1 / b)) ** (m + a - 1) * u ** ((n - m) / b) / b, 0, 0.5**b
        )
        want += math.log(density * (below[0] + above[0]))
    assert log_evidence(positives, rows, rate) == pytest.approx(want, rel=1e-8)


def test_bbq_is_the_paper_s_sum_written_out() -> None:
    """Equations 1 to 4 of Naeini et al. over all binnings, with gamma functions, on 40 distinct scores."""
    scores, labels = drawn(10, 40)
    order = np.argsort(scores)
    y, rate = labels[order], labels.mean()
    averaged, total, seen = np.zeros(40), 0.0, set()
    for size in range(1, math.ceil(10 * 40 ** (1 / 3)) + 1):
        place = np.floor((np.arange(40) + 0.5) * size / 40).astype(int)
        if (key := tuple(np.unique(place, return_inverse=True)[1])) in seen:
            continue
        seen.add(key)
        used = np.unique(place)
        score, q = 1.0, np.zeros(40)
        for b in used:
            n, m, prior = (place == b).sum(), y[place == b].sum(), 2 / len(used)
            alpha, beta = rate * prior, (1 - rate) * prior
            score *= math.gamma(prior) / math.gamma(n + prior)
            score *= math.gamma(m + alpha) / math.gamma(alpha) * math.gamma(n - m + beta) / math.gamma(beta)
            q[place == b] = (m + alpha) / (n + prior)
        averaged, total = averaged + score * q, total + score
    want = IsotonicRegression().fit_transform(np.arange(40.0), averaged / total)
    np.testing.assert_allclose(BBQ.fit(ground_truth_sample(scores, labels)).predict(scores[order]), want, atol=1e-9)


# Venn-Abers


@settings(max_examples=60, deadline=None)
@given(sample=samples())
def test_venn_abers_is_two_isotonic_regressions_a_score(sample: CalibrationSample) -> None:
    unweighted = ground_truth_sample(sample.scores, sample.labels)
    asked = np.arange(-10, 10.5, 1.5)
    p0, p1 = VennAbers.fit(unweighted).interval(asked)
    for label, found in ((0.0, p0), (1.0, p1)):
        for score, level in zip(asked, found, strict=True):
            x, y = np.r_[sample.scores, score], np.r_[sample.labels, label]
            want = IsotonicRegression().fit(x, y).predict([score])[0]
            assert level == pytest.approx(want, abs=1e-9)


def test_venn_abers_is_the_published_package() -> None:
    scores, labels = drawn(11, 300, decimals=2)
    fresh, _ = drawn(12, 300)
    p = expit(scores)
    package = PublishedVennAbers()
    package.fit(np.stack([1 - p, p], axis=1), labels.astype(int))
    q = expit(fresh)
    merged, pair = package.predict_proba(np.stack([1 - q, q], axis=1))
    ours = VennAbers.fit(ground_truth_sample(scores, labels))
    np.testing.assert_allclose(np.stack(ours.interval(fresh), axis=1), pair, atol=1e-6)
    np.testing.assert_allclose(ours.predict(fresh), merged[:, 1], atol=1e-6)


@settings(max_examples=100, deadline=None)
@given(sample=samples(), alpha=st.floats(0.02, 0.98))
def test_the_interval_holds_isotonic_regression_at_the_same_base_rate(sample: CalibrationSample, alpha: float) -> None:
    parts = [sample.scores[sample.labels == label] for label in (1, 0)]
    weighted = synthetic_sample(*parts, alpha)
    ours, isotonic = VennAbers.fit(weighted), Isotonic.fit(weighted).predict(weighted.scores)
    p0, p1 = ours.interval(weighted.scores)
    assert (p0 <= isotonic + 1e-9).all()
    assert (isotonic <= p1 + 1e-9).all()
    q = ours.predict(weighted.scores)
    assert ((q > 0) & (q < 1)).all()


@settings(max_examples=60, deadline=None)
@given(sample=samples())
def test_weights_within_a_label_move_only_the_base_rate_of_venn_abers(sample: CalibrationSample) -> None:
    y, w = sample.labels, sample.weights
    even = np.where(y == 1, w[y == 1].mean(), w[y == 0].mean())
    ours, same = VennAbers.fit(sample), VennAbers.fit(CalibrationSample(sample.scores, y, even))
    np.testing.assert_allclose(ours.interval(GRID), same.interval(GRID), atol=1e-9)


def test_one_of_the_two_is_calibrated_in_the_smallest_samples() -> None:
    """Venn's guarantee: over exchangeable rows, the p of the true label is calibrated exactly, E[y | p_y] = p_y. Here
    summed out over every sample of four rows, and a fifth, of a law on three scores."""
    law = np.array([[0.2, 0.15, 0.05], [0.1, 0.2, 0.3]])  # label, score
    asked, weight, true = np.arange(3.0), defaultdict(float), defaultdict(float)
    for y, f in product(product((0, 1), repeat=4), product((0, 1, 2), repeat=4)):
        chance = np.prod(law[list(y), list(f)])
        if 0 < sum(y) < 4:
            pair = VennAbers.fit(ground_truth_sample(np.array(f), np.array(y))).interval(asked)
        else:  # no sample of ours, but the two regressions exist
            pair = [
                [IsotonicRegression().fit([*f, score], [*y, label]).predict([score])[0] for score in asked]
                for label in (0, 1)
            ]
        for label, score in product((0, 1), (0, 1, 2)):
            level = round(float(pair[label][score]), 9)
            weight[level] += chance * law[label, score]
            true[level] += chance * law[label, score] * label
    assert len(weight) > 5
    for level in weight:
        assert true[level] / weight[level] == pytest.approx(level, abs=1e-8)


# Smoothed isotonic


def test_smoothed_isotonic_by_hand() -> None:
    """Blocks of 2, 2 and 2 rows with 0, 1 and 2 positives, r = 1/2: (0 + .5) / 3, (1 + .5) / 3, (2 + .5) / 3."""
    scores, labels = np.arange(6.0), np.array([0.0, 0, 1, 0, 1, 1])
    fitted = SmoothedIsotonic.fit(ground_truth_sample(scores, labels))
    np.testing.assert_allclose(fitted.predict(scores), np.repeat([1 / 6, 1 / 2, 5 / 6], 2))
    np.testing.assert_allclose(fitted.predict(np.array([-9, 1.5, 9])), [1 / 6, 1 / 3, 5 / 6])


def test_blocks_that_the_prior_puts_out_of_order_are_pooled() -> None:
    """19 positives of 20, then 1 of 1, r = 20 / 30: 19 2/3 of 21 is more than 1 2/3 of 2; together 21 1/3 of 23."""
    scores = np.r_[np.zeros(9), np.ones(20), 2.0]
    labels = np.r_[np.zeros(9), np.ones(19), 0.0, 1.0]
    fitted = SmoothedIsotonic.fit(ground_truth_sample(scores, labels))
    rate = 20 / 30
    want = [rate / 10, (20 + 2 * rate) / 23, (20 + 2 * rate) / 23]
    np.testing.assert_allclose(fitted.predict(np.arange(3.0)), want)


@settings(max_examples=100, deadline=None)
@given(sample=samples())
def test_smoothing_moves_every_probability_towards_the_base_rate(sample: CalibrationSample) -> None:
    smoothed = SmoothedIsotonic.fit(sample).predict(sample.scores)
    plain, rate = Isotonic.fit(sample).predict(sample.scores), sample.base_rate
    assert ((smoothed > 0) & (smoothed < 1)).all()
    assert (smoothed >= np.minimum(plain, rate) - 1e-9).all()
    assert (smoothed <= np.maximum(plain, rate) + 1e-9).all()


@pytest.mark.parametrize("name", ["smoothed_isotonic", "bbq"])
def test_copies_are_more_rows_but_weights_are_not(name: str) -> None:
    scores, labels = drawn(13, 60)
    fit, times = CALIBRATORS.get(name).fit, 50
    once = fit(ground_truth_sample(scores, labels)).predict(scores)
    heavy = fit(CalibrationSample(scores, labels, np.full(60, float(times)))).predict(scores)
    copies = fit(ground_truth_sample(np.repeat(scores, times), np.repeat(labels, times))).predict(scores)
    np.testing.assert_allclose(heavy, once, atol=1e-12)
    plain = Isotonic.fit(ground_truth_sample(scores, labels)).predict(scores)
    assert np.abs(copies - plain).mean() < np.abs(once - plain).mean()


# Centred isotonic


def test_centred_isotonic_by_hand() -> None:
    """Blocks {1, 2, 3} with 1 of 3 positives, {5, 9} with 1 of 2, {10} with 3 of 4 by weight: centres 2, 7, 10."""
    scores = np.array([1.0, 2, 3, 5, 9, 10, 10])
    labels, weights = np.array([1.0, 0, 0, 1, 0, 1, 0]), np.array([1.0, 1, 1, 1, 1, 3, 1])
    fitted = CentredIsotonic.fit(CalibrationSample(scores, labels, weights))
    np.testing.assert_allclose(fitted.scores, [2, 7, 10])
    np.testing.assert_allclose(fitted.probabilities, [1 / 3, 1 / 2, 3 / 4])
    np.testing.assert_allclose(fitted.predict(np.array([2, 4.5, 7, 8.5, 10])), [1 / 3, 5 / 12, 1 / 2, 5 / 8, 3 / 4])
    slope = (1 / 6) / 5  # below: 1/3 exp(slope / (1/3) (f - 2)); above: 1 - 1/4 exp(-(1/12) / (1/4) (f - 10))
    np.testing.assert_allclose(fitted.predict(np.array([1.0])), math.exp(-3 * slope) / 3)
    np.testing.assert_allclose(fitted.predict(np.array([13.0])), 1 - math.exp(-1) / 4)


@settings(max_examples=100, deadline=None)
@given(sample=samples())
def test_centred_isotonic_keeps_the_ranking(sample: CalibrationSample) -> None:
    """Strictly increasing, but below a level of 0 and above a level of 1, where there is one block, and where q is 1 to
    rounding."""
    fitted = CentredIsotonic.fit(sample)
    if len(fitted.scores) == 1:
        np.testing.assert_allclose(fitted.predict(GRID), sample.base_rate)
        return
    low = fitted.scores[0] if fitted.probabilities[0] == 0 else -9
    high = fitted.scores[-1] if fitted.probabilities[-1] == 1 else 9
    q = fitted.predict(np.linspace(low, high, 200))
    assert ((np.diff(q) > 0) | (q[1:] > 1 - 1e-12)).all()


def test_the_tails_of_centred_isotonic_go_on_with_its_slope() -> None:
    scores, labels = bent(14, 200)
    fitted = CentredIsotonic.fit(ground_truth_sample(scores, labels))
    if fitted.probabilities[0] == 0:
        fitted = CentredIsotonic(fitted.scores[1:].tolist(), fitted.probabilities[1:].tolist())
    first, h = fitted.scores[0], 1e-7
    q = fitted.predict(np.array([first - h, first, first + h]))
    assert (q[1] - q[0]) / h == pytest.approx((q[2] - q[1]) / h, rel=1e-4)


@quiet
@pytest.mark.parametrize("name", ["beta", "centred_isotonic", "smoothed_isotonic", "bbq", "venn_abers"])
def test_most_are_nearer_the_truth_than_platt_scaling_where_the_odds_bend(name: str) -> None:
    scores, labels = bent(15, 20_000)
    sample, grid = ground_truth_sample(scores, labels), np.linspace(-2, 2, 201)
    truth = expit(np.where(grid < 0, 3 * grid, grid))

    def error(calibrator: str, fitted_on: CalibrationSample = sample) -> float:
        return float(np.abs(CALIBRATORS.get(calibrator).fit(fitted_on).predict(grid) - truth).mean())

    assert error(name) < 0.6 * error("platt")
    skewed = synthetic_sample(scores[labels == 1], scores[labels == 0], 0.1)
    moved = shift(truth, float(labels.mean()), 0.1)
    assert np.abs(CALIBRATORS.get(name).fit(skewed).predict(grid) - moved).mean() < 0.02
