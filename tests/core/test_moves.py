"""What has moved since calibration: against closed forms, and by simulation with known truth."""

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import binom, chi2

from kgcore.calibrate.sample import CalibrationSample, ground_truth_sample
from kgcore.errors import InputError
from kgcore.wings.monitoring.moves import Moves, moves
from kgcore.wings.monitoring.two_samples import NewTriples, cells_of, normal_scores, spline_columns
from tests.core.monitoring_samples import drawn, ground_truth, synthetic

ONE_IN_A_MILLION = 1e-6


def moved(sample: CalibrationSample, base_rate: float, scores: np.ndarray, labels: np.ndarray) -> Moves:
    return moves(sample, base_rate, NewTriples(scores, labels))


def test_one_score_is_a_table_of_four_counts() -> None:
    """With one score for all, the shift is a log odds ratio, and its test is the G-test of two shares."""
    old, new = np.repeat([1.0, 0.0], [60, 140]), np.repeat([1.0, 0.0], [50, 50])
    found = moved(ground_truth_sample(np.zeros(200), old), 0.3, np.zeros(100), new)
    assert found.shift.value == pytest.approx(logit(0.5) - logit(0.3), abs=2e-3)  # the wide prior takes the rest
    error = np.sqrt(1 / 60 + 1 / 140 + 1 / 50 + 1 / 50)
    assert (found.shift.high - found.shift.low) / 2 / 1.959964 == pytest.approx(error, rel=1e-3)

    counts, shares = np.array([60, 140, 50, 50]), np.array([110, 190, 110, 190]) / 300
    g = 2 * (counts * np.log(counts / (shares * np.array([200, 200, 100, 100])))).sum()
    assert found.shift_p == pytest.approx(chi2.sf(g, 1), rel=1e-2)
    assert found.map_p == 1
    assert found.misfit.value == found.misfit.high == 0
    assert found.base_rate(0.3).value == pytest.approx(0.5, abs=1e-3)


def test_corruptions_in_excess_are_a_known_offset() -> None:
    """20 corruptions for each positive at the base rate 0.5: new labels that are half true have not moved."""
    labels = np.repeat([1.0, 0.0], [100, 2000])
    sample = CalibrationSample(np.zeros(2100), labels, np.repeat([20.0, 1.0], [100, 2000]))
    new = np.repeat([1.0, 0.0], [150, 150])
    assert moved(sample, 0.5, np.zeros(300), new).shift.value == pytest.approx(0, abs=1e-3)
    assert moved(sample, 0.1, np.zeros(300), new).shift.value == pytest.approx(-logit(0.1), abs=2e-2)


def test_only_the_ranks_of_scores_count(rng: np.random.Generator) -> None:
    old, new = drawn(rng, 300), drawn(rng, 200, 0.6)
    plain = moved(ground_truth_sample(*old), 0.5, *new)
    bent = moved(ground_truth_sample(np.sinh(old[0]), old[1]), 0.5, np.sinh(new[0]), new[1])
    assert bent.shift_p == pytest.approx(plain.shift_p, rel=0.05)  # scores between two of the sample move a little
    assert bent.shift.value == pytest.approx(plain.shift.value, abs=0.02)


def test_exchanged_labels_and_scores_exchange_the_shift(rng: np.random.Generator) -> None:
    old, new = drawn(rng, 300), drawn(rng, 200, 0.7)
    plain = moved(ground_truth_sample(*old), 0.5, *new)
    other = moved(ground_truth_sample(-old[0], 1 - old[1]), 0.5, -new[0], 1 - new[1])
    assert other.shift.value == pytest.approx(-plain.shift.value, abs=0.02)
    assert other.map_p == pytest.approx(plain.map_p, rel=0.1)


def test_p_values_are_uniform_without_drift() -> None:
    """400 + 400 labels, and 20 corruptions a positive at a base rate of 0.1 with 500 labels."""
    rng, found = np.random.default_rng(1), []
    for _ in range(120):
        one = moved(ground_truth(rng, 400), 0.5, *drawn(rng, 400))
        other = moved(synthetic(rng, 200, 20, 0.1), 0.1, *drawn(rng, 500, 0.1))
        found.append([one.shift_p, one.map_p, other.shift_p, other.map_p])
    for level in (0.02, 0.1):
        counts = (np.array(found) < level).sum(axis=0)
        assert (counts <= binom.ppf(1 - ONE_IN_A_MILLION, 120, level)).all()
    assert (np.array(found)[:, :3] < 0.5).sum(axis=0).min() >= binom.ppf(ONE_IN_A_MILLION, 120, 0.4)


def test_the_error_of_an_estimated_base_rate_is_not_drift() -> None:
    """The base rate 0.3 is estimated with standard error 0.05: 3,000 labels show the error, which is no drift."""
    rng, error, repetitions = np.random.default_rng(6), 0.05, 40
    false, without, covered = 0, 0, 0
    for _ in range(repetitions):
        rate = rng.normal(0.3, error)
        sample, new = synthetic(rng, 1000, 8, rate), NewTriples(*drawn(rng, 3000, 0.3))
        found = moves(sample, rate, new, (rate - 1.96 * error, rate + 1.96 * error))
        false += found.shift_p < 0.01
        without += moves(sample, rate, new).shift_p < 0.01
        moved_rate = found.base_rate(rate)
        covered += moved_rate.low < 0.3 < moved_rate.high
    assert false <= binom.ppf(0.9999, repetitions, 0.015)
    assert without > binom.ppf(0.9999, repetitions, 0.015)
    assert covered >= binom.ppf(1e-4, repetitions, 0.95)


def test_an_interval_of_the_base_rate_widens_the_shift_by_its_variance(rng: np.random.Generator) -> None:
    sample, new = synthetic(rng, 200, 20, 0.3), NewTriples(*drawn(rng, 400, 0.5))
    exact, uncertain = moves(sample, 0.3, new), moves(sample, 0.3, new, (0.2, 0.42))
    deviations = [(shift.high - shift.low) / (2 * 1.959964) for shift in (exact.shift, uncertain.shift)]
    error = (logit(0.42) - logit(0.2)) / (2 * 1.959964)
    assert deviations[1] ** 2 == pytest.approx(deviations[0] ** 2 + error**2, rel=1e-2)
    assert uncertain.shift.value == pytest.approx(exact.shift.value, abs=2e-2)
    assert exact.level == exact.shift
    assert uncertain.level.low == pytest.approx(exact.level.low, abs=2e-2)
    assert uncertain.level.high == pytest.approx(exact.level.high, abs=2e-2)
    assert uncertain.map_p == pytest.approx(exact.map_p, rel=1e-2)
    assert moves(sample, 0.3, new, (0.3, 0.3)) == exact
    with pytest.raises(InputError, match="base_rate"):
        moves(sample, 0.3, new, (0.0, 0.5))


def test_a_base_rate_that_moved_is_estimated_and_is_not_a_map_that_moved() -> None:
    rng, covered, called_map = np.random.default_rng(2), 0, 0
    for _ in range(150):
        found = moved(ground_truth(rng, 400), 0.5, *drawn(rng, 500, expit(1)))
        covered += found.shift.low < 1 < found.shift.high
        called_map += found.map_p < 0.05
    assert binom.ppf(1e-4, 150, 0.95) <= covered
    assert called_map <= binom.ppf(1 - 1e-4, 150, 0.05)


def test_a_map_that_moved_is_not_a_base_rate_that_moved() -> None:
    """The log-odds become half as large: the slope is 0.5, the misfit is the size of f."""
    rng, by_map, by_shift, slopes, misfits = np.random.default_rng(3), 0, 0, [], []
    for _ in range(60):
        scores, _ = drawn(rng, 600)
        labels = (rng.random(600) < expit(scores)).astype(float)
        found = moved(ground_truth(rng, 600), 0.5, scores, labels)
        by_map += found.map_p < 0.002
        by_shift += found.shift_p < 0.002
        slopes.append(found.slope.value)
        misfits.append(found.misfit.low <= 1.2 <= found.misfit.high)  # root mean square of f by weight is about 1.2
    assert by_map >= 54
    assert by_shift <= 3
    assert np.mean(slopes) == pytest.approx(0.5, abs=0.08)
    assert np.mean(misfits) >= 0.9


def test_predicates_with_maps_of_their_own_may_come_in_other_shares(rng: np.random.Generator) -> None:
    """The odds of predicate 0 are e^4 times those of predicate 1; among the new triples predicate 1 is frequent."""

    def triples(n: int, share: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        predicates = (rng.random(n) < share).astype(np.int64)
        scores = rng.normal(size=n)
        labels = (rng.random(n) < expit(scores + 2 - 4 * predicates)).astype(float)
        return scores, labels, predicates

    scores, labels, predicates = triples(1000, 0.5)
    sample = CalibrationSample(scores, labels, np.ones(1000), predicates)
    scores, labels, predicates = triples(1000, 0.9)
    own, shared = (moves(sample, 0.5, NewTriples(scores, labels, kinds)) for kinds in (predicates, None))
    assert own.shift_p > 0.01
    assert own.map_p > 0.01
    assert shared.shift_p < 1e-9
    with pytest.raises(InputError, match="the new triples have predicates, but the calibration sample has none"):
        moves(ground_truth_sample(scores, labels), 0.5, NewTriples(scores, labels, predicates))


@pytest.mark.parametrize("label", [0.0, 1.0])
def test_labels_of_one_class_have_finite_results(rng: np.random.Generator, label: float) -> None:
    found = moved(ground_truth(rng, 400), 0.5, rng.normal(size=100), np.full(100, label))
    assert np.sign(found.shift.value) == 2 * label - 1
    assert np.isfinite([found.shift.low, found.shift.high, found.misfit.high]).all()
    assert found.shift_p < 1e-6


def test_a_score_that_says_nothing_has_no_slope(rng: np.random.Generator) -> None:
    found = moved(ground_truth_sample(np.zeros(100), np.arange(100) % 2.0), 0.5, np.zeros(60), np.arange(60) % 2.0)
    assert (found.slope.value, found.slope.low, found.slope.high) == (1, -np.inf, np.inf)


def test_normal_scores_are_quantiles_of_ranks() -> None:
    normal = normal_scores(np.array([1.0, 2.0, 3.0, 4.0]), np.array([0.0, 1.0, 0.0, 1.0]))
    cells = cells_of(np.array([-9.0, 1.0, 2.5, 4.0, 9.0]), normal, 3)
    assert cells.tolist() == [1, 1, 1, 1, 1]  # ranks 1/8, 1/2, 7/8: normal scores -1.15, 0, 1.15
    assert (np.diff(cells_of(np.array([1.0, 2.0, 2.5, 3.0, 4.0]), normal, 512)) > 0).all()


def test_spline_columns_are_orthonormal_and_the_first_is_a_line(rng: np.random.Generator) -> None:
    x, weights = rng.normal(size=300), rng.random(300)
    columns, share = spline_columns(x, weights, 7), weights / weights.sum()
    assert columns.shape == (300, 6)
    assert columns.T @ (columns * share[:, None]) == pytest.approx(np.eye(6), abs=1e-9)
    assert share @ columns == pytest.approx(np.zeros(6), abs=1e-9)
    assert abs(np.corrcoef(columns[:, 0], x)[0, 1]) == pytest.approx(1)
    assert spline_columns(np.repeat([0.0, 1.0], 5), np.ones(10), 7).shape == (10, 1)
    assert spline_columns(np.zeros(5), np.ones(5), 7).shape == (5, 0)
