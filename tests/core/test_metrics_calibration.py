"""Calibration errors and parts of proper scores, compared with hand numbers, second formulas and other libraries."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from scipy.special import expit, logit
from sklearn.isotonic import IsotonicRegression

from kgcore.errors import InputError
from kgcore.measure.metrics.base import Sample, Tally
from kgcore.measure.metrics.proper import brier, brier_parts, log_loss, log_loss_parts
from kgcore.measure.metrics.reliability import debiased_square, ece, equal_mass_bins, smoothed_error
from tests.core.samples import DISTORTIONS, calibrated, copies, figure, pair_weights, samples, tally_of

ece_equal_mass, sharpness = figure("ece_equal_mass"), figure("sharpness")
PARTS = [f"{score}_{part}" for score in ("brier", "log_loss") for part in ("miscalibration", "discrimination")]
WEIGHTED = {name: figure(name) for name in ("ece_equal_mass", "smooth_ece", "sharpness", *PARTS)}  # 2 equals two rows
FIGURES = WEIGHTED | {"debiased_rmsce": figure("debiased_rmsce")}
debiased_rmsce, smooth_ece = FIGURES["debiased_rmsce"], FIGURES["smooth_ece"]
ERRORS = ["ece_equal_mass", "smooth_ece", "debiased_rmsce", "brier_miscalibration", "log_loss_miscalibration"]


def tally(q: np.ndarray, y: np.ndarray, w: np.ndarray | None = None) -> Tally:
    return Sample(q, y, w).tally()


@given(sample=copies)
def test_a_weight_of_two_equals_two_rows(sample) -> None:
    q, y, times = sample
    repeated = [np.repeat(column, times.astype(int)) for column in (q, y)]
    for name in WEIGHTED:
        assert FIGURES[name](q, y, times) == pytest.approx(FIGURES[name](*repeated), abs=1e-6), name


@given(sample=samples)
def test_values_do_not_depend_on_order_or_scale_of_weights_and_stay_in_range(sample) -> None:
    q, y, w = sample
    shuffled = np.random.default_rng(0).permutation(len(q))
    for name, measure in FIGURES.items():
        value = measure(q, y, w)
        assert measure(q[shuffled], y[shuffled], w[shuffled]) == pytest.approx(value, abs=1e-6), name
        assert measure(q, y, 7 * w) == pytest.approx(value, abs=1e-6), name
        assert 0 <= value <= (17 if name.startswith("log_loss") else 1), name


@pytest.mark.parametrize("name", FIGURES)
def test_values_out_of_range_are_refused(name: str) -> None:
    with pytest.raises(InputError, match=r"found 0.5 to 1.2"):
        FIGURES[name](np.array([0.5, 1.2]), np.array([0.0, 1]))
    with pytest.raises(InputError, match="labels hold 2"):
        FIGURES[name](np.array([0.5, 0.2]), np.array([0.0, 2]))


@pytest.mark.parametrize("name", [*ERRORS, "ece"])
@pytest.mark.parametrize("distortion", DISTORTIONS)
@pytest.mark.parametrize("base_rate", [None, 0.1])
def test_a_known_distortion_raises_every_calibration_error(
    name: str, distortion: str, base_rate: float | None, rng: np.random.Generator
) -> None:
    """This also holds with weights for a base rate, for which shifted odds give the right probabilities."""
    q, y = calibrated(rng, 4000)
    w = None
    if base_rate is not None:
        w = pair_weights(y, base_rate)
        q = expit(logit(q) + logit(base_rate) - logit(y.mean()))
    error = FIGURES.get(name, ece)
    assert error(DISTORTIONS[distortion](q), y, w) > 2 * error(q, y, w) + 0.001


def test_equal_mass_bins_by_hand() -> None:
    q, y = np.array([0.1, 0.2, 0.2, 0.2, 0.6, 0.9]), np.array([0.0, 1, 0, 0, 1, 1])
    t = tally(q, y)
    assert equal_mass_bins(t, 2).tolist() == [0, 2]  # the three equal probabilities stay in one bin, below the middle
    expected = abs(0.1 + 0.6 - 1) / 6 + abs(2 - 1.5) / 6
    assert ece_equal_mass(q, y, bins=2) == pytest.approx(expected)
    assert equal_mass_bins(tally(np.full(9, 0.3), np.r_[1.0, np.zeros(8)]), 10).tolist() == [0]
    heavy = np.array([1.0, 1, 1, 1, 1, 100])
    assert equal_mass_bins(tally(q, y, heavy), 2).tolist() == [0, 3]


def test_equal_mass_bins_of_distinct_probabilities_are_quantile_bins(rng: np.random.Generator) -> None:
    q, y = rng.random(1000), (rng.random(1000) < 0.5).astype(float)
    order = np.argsort(q)
    gaps = [abs((y - q)[rows].sum()) for rows in np.split(order, 8)]
    assert ece_equal_mass(q, y, bins=8) == pytest.approx(sum(gaps) / 1000)


def test_the_debiased_error_of_few_distinct_probabilities_is_that_of_kumar(rng: np.random.Generator) -> None:
    """Kumar et al. 2019: sum_b n_b / n ((s_b - q_b)^2 - s_b (1 - s_b) / (n_b - 1))."""
    q = rng.choice([0.1, 0.3, 0.6, 0.8], size=800)
    y = (rng.random(800) < q**2).astype(float)
    expected = 0.0
    for value in np.unique(q):
        true = y[q == value]
        share = true.mean()
        expected += len(true) / 800 * ((share - value) ** 2 - share * (1 - share) / (len(true) - 1))
    assert debiased_rmsce(q, y, bins=100) ** 2 == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("base_rate", [None, 0.1])
def test_only_the_debiased_error_of_perfect_probabilities_is_zero_on_average(base_rate: float | None) -> None:
    rng = np.random.default_rng(3)
    drawn, plain = [], []
    for _ in range(400):
        q, y = calibrated(rng, 1000)
        w = None
        if base_rate is not None:
            w = np.where(y == 1, base_rate, 1 - base_rate)  # half of the triples are true, on average
            q = expit(logit(q) + logit(base_rate))
        t = tally(q, y, w)
        drawn.append(debiased_square(t, equal_mass_bins(t, 10)))
        plain.append(ece_equal_mass(q, y, w))
    mean, error = np.mean(drawn), np.std(drawn) / np.sqrt(len(drawn))
    assert abs(mean) < 4 * error
    assert np.mean(plain) ** 2 > 5 * abs(mean)


def test_bins_with_one_triple_do_not_count() -> None:
    assert debiased_rmsce(np.array([0.2, 0.9]), np.array([1.0, 0.0]), bins=2) == 0


def brute_force(q: np.ndarray, y: np.ndarray, w: np.ndarray, sigma: float) -> float:
    """Compute smECE_sigma with the mirror images of the kernel, at every pair of a grid point and a row."""
    t = (np.arange(3000) + 0.5) / 3000
    kernel = np.zeros((len(t), len(q)))
    for turn in (-2, 0, 2):
        for centre in (q, -q):
            kernel += np.exp(-((t[:, None] - centre - turn) ** 2) / (2 * sigma**2))
    density = kernel @ (w * (y - q)) / (sigma * np.sqrt(2 * np.pi) * w.sum())
    return float(np.abs(density).mean())


@pytest.mark.parametrize("sigma", [0.01, 0.05, 0.3])
def test_the_smoothed_error_is_the_integral_of_the_definition(sigma: float, rng: np.random.Generator) -> None:
    q, w = rng.random(300) ** 2, rng.random(300) + 0.1
    y = (rng.random(300) < q).astype(float)
    assert smoothed_error(tally(q, y, w))(sigma) == pytest.approx(brute_force(q, y, w, sigma), rel=2e-3)


@given(samples)
def test_smooth_ece_is_the_fixed_point(sample) -> None:
    value, error = smooth_ece(*sample), smoothed_error(tally(*sample))
    assert error(value) == pytest.approx(value, abs=1e-5)
    widths = [error(sigma) for sigma in (0.01, 0.02, 0.05, 0.1, 0.3, 1.0)]
    assert all(wider <= finer + 1e-9 for finer, wider in pairwise(widths))


@pytest.mark.parametrize(
    ("n", "curve", "expected"),
    [  # from the authors' relplot 1.0.3 with eps 1e-5, whose bandwidth is a multiple of 1 / 1024
        (200, lambda q: q, 0.031024),
        (2000, lambda q: q, 0.012496),
        (2000, lambda q: q**2, 0.165797),
        (500, lambda q: 0.2 + 0.6 * q, 0.091235),
        (20_000, lambda q: q**1.3, 0.065037),
    ],
)
def test_smooth_ece_is_that_of_its_authors(n: int, curve, expected: float) -> None:
    steps = np.arange(n)
    q, drawn = steps * 0.618033988749895 % 1, steps * 0.7548776662466927 % 1
    y = (drawn < curve(q)).astype(float)
    assert smooth_ece(q, y) == pytest.approx(expected, abs=1 / 1024)


def test_smooth_ece_of_right_and_of_wrong_certainty() -> None:
    y = np.array([0.0, 0, 1, 1])
    assert smooth_ece(y, y) == pytest.approx(0, abs=1e-6)
    assert smooth_ece(1 - y, y) > 0.4
    assert smooth_ece(np.array([0.5]), np.array([1.0])) == pytest.approx(0.5, abs=1e-6)  # no other residual cancels it


@given(samples)
def test_the_parts_add_up_and_are_not_negative(sample) -> None:
    tally = tally_of(*sample)
    for parts, score in ((brier_parts(tally), brier(*sample)), (log_loss_parts(tally), log_loss(*sample))):
        assert parts.miscalibration - parts.discrimination + parts.uncertainty == pytest.approx(
            score, abs=1e-12, rel=1e-12
        )
        assert min(parts.miscalibration, parts.discrimination, parts.uncertainty) >= 0


@given(samples)
def test_the_recalibrated_score_is_that_of_scikit_learns_isotonic_regression(sample) -> None:
    q, y, w = sample
    q = q.round(9)  # scikit-learn treats closer values as equal
    r = IsotonicRegression().fit(q, y, sample_weight=w).predict(q).clip(0, 1)
    share = np.full(len(q), np.average(y, weights=w))
    parts = brier_parts(tally_of(q, y, w))
    assert parts.miscalibration == pytest.approx(brier(q, y, w) - brier(r, y, w), abs=1e-9)
    assert parts.discrimination == pytest.approx(brier(share, y, w) - brier(r, y, w), abs=1e-9)
    assert parts.uncertainty == pytest.approx(brier(share, y, w), abs=1e-12)
    logs = log_loss_parts(tally_of(q, y, w))
    assert logs.miscalibration == pytest.approx(log_loss(q, y, w) - log_loss(r, y, w), abs=1e-5)
    assert logs.uncertainty == pytest.approx(log_loss(share, y, w), abs=1e-5)


def test_the_parts_are_those_of_murphy_if_the_curve_rises() -> None:
    """Murphy 1973 defines reliability, resolution and uncertainty of forecasts with few values."""
    q = np.repeat([0.2, 0.5, 0.9], [10, 20, 10])
    y = np.r_[np.repeat([1.0, 0], [1, 9]), np.repeat([1.0, 0], [12, 8]), np.repeat([1.0, 0], [7, 3])]
    weight, observed, mean = np.array([0.25, 0.5, 0.25]), np.array([0.1, 0.6, 0.7]), y.mean()
    parts = brier_parts(tally_of(q, y))
    assert parts.miscalibration == pytest.approx(weight @ (np.array([0.2, 0.5, 0.9]) - observed) ** 2)
    assert parts.discrimination == pytest.approx(weight @ (observed - mean) ** 2)
    assert parts.uncertainty == pytest.approx(mean * (1 - mean))


def test_sharpness_is_a_variance_and_equals_the_discrimination_of_calibrated_probabilities(
    rng: np.random.Generator,
) -> None:
    assert sharpness(np.array([0.0, 1, 1]), np.zeros(3), np.array([2.0, 1, 1])) == pytest.approx(0.25)
    assert sharpness(np.full(4, 0.3), np.zeros(4)) == pytest.approx(0, abs=1e-15)
    q, y = calibrated(rng, 50_000)
    assert sharpness(q, y) == pytest.approx(brier_parts(tally_of(q, y)).discrimination, abs=0.003)
    over = DISTORTIONS["overconfident"](q)
    assert sharpness(over, y) > brier_parts(tally_of(over, y)).discrimination + 0.02


@given(samples)
def test_sorted_rows_are_resampled_and_neighbours_merged(sample) -> None:
    q, y, w = sample
    counts = np.arange(len(q)) % 3.0
    counts[0] = 2
    rows = np.repeat(np.arange(len(q)), counts.astype(int))
    drawn = Sample(q, y, w).tally(counts)
    assert drawn.mean(drawn.q, drawn.q) == pytest.approx(np.average(q[rows], weights=w[rows]))
    assert drawn.positive_squares.sum() == pytest.approx((w[rows] ** 2 * y[rows]).sum())
    coarse = Sample(q, y, w, most=5).tally()
    assert len(coarse.q) <= 5
    assert (np.diff(coarse.q) >= 0).all()
    assert coarse.weight.sum() == pytest.approx(w.sum())
    assert coarse.mean(coarse.q, coarse.q) == pytest.approx(np.average(q, weights=w))
