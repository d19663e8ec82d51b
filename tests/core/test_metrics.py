"""Metrics, compared with hand numbers and scikit-learn."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss
from sklearn.metrics import log_loss as sk_log_loss

from kgcore.errors import InputError
from kgcore.measure.metrics.classification import (
    accuracy,
    best_threshold,
    learned_thresholds,
    median_thresholds,
    weighted_median,
)
from kgcore.measure.metrics.proper import brier, log_loss
from kgcore.measure.metrics.reliability import ece, reliability, wilson

triples = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 1), st.floats(0.1, 5)), min_size=1, max_size=50).map(
    lambda rows: tuple(np.array(column, dtype=float) for column in zip(*rows, strict=True))
)


@given(triples)
def test_proper_scores_equal_those_of_scikit_learn(data) -> None:
    q, y, w = data
    assert brier(q, y, w) == pytest.approx(brier_score_loss(y, q, sample_weight=w, pos_label=1))
    expected = sk_log_loss(y, q.clip(1e-7, 1 - 1e-7), sample_weight=w, labels=[0, 1])
    assert log_loss(q, y, w) == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_log_loss_clips_at_the_stated_value() -> None:
    assert log_loss(np.array([0.0]), np.array([1.0])) == pytest.approx(-np.log(1e-7))


@given(triples)
def test_reliability_conserves_weight_and_ece_is_bounded(data) -> None:
    q, y, w = data
    bins = reliability(q, y, w)
    assert bins.weight.sum() == pytest.approx(1)
    assert bins.count.sum() == len(q)
    assert bins.weight @ bins.observed == pytest.approx(np.average(y, weights=w))
    assert bins.weight @ bins.predicted == pytest.approx(np.average(q, weights=w))
    assert ((bins.predicted >= bins.lower - 1e-12) & (bins.predicted <= bins.upper + 1e-12)).all()
    assert ((bins.low <= bins.observed + 1e-9) & (bins.observed <= bins.high + 1e-9)).all()
    assert abs(np.average(q - y, weights=w)) - 1e-12 <= bins.ece <= 1


def test_ece_by_hand() -> None:
    q, y = np.array([0.05, 0.1, 0.11, 0.95, 1.0]), np.array([0.0, 1, 0, 1, 1])
    bins = reliability(q, y)
    np.testing.assert_allclose(bins.upper, [0.1, 0.2, 1.0])
    np.testing.assert_allclose(bins.count, [2, 1, 2])
    assert ece(q, y) == pytest.approx((2 * abs(0.5 - 0.075) + 0.11 + 2 * 0.025) / 5)
    assert ece(q, y, np.full(5, 7.0)) == pytest.approx(ece(q, y))


def test_wilsons_interval_has_the_textbook_value() -> None:
    low, high = wilson(np.array([0.5]), np.array([10.0]))
    assert (low[0], high[0]) == pytest.approx((0.2366, 0.7634), abs=1e-4)


def test_probabilities_out_of_range_are_refused() -> None:
    with pytest.raises(InputError, match=r"found 0.5 to 1.2"):
        brier(np.array([0.5, 1.2]), np.array([0.0, 1]))
    with pytest.raises(InputError, match="not finite"):
        ece(np.array([0.5, np.nan]), np.array([0.0, 1]))


@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(0, 1), st.integers(1, 3)), min_size=1, max_size=25))
def test_no_threshold_is_better_than_the_best_threshold(rows) -> None:
    scores, labels, weights = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    tau = best_threshold(scores, labels, weights)
    reached = accuracy(scores > tau, labels, weights)
    tried = [accuracy(scores > t, labels, weights) for t in np.arange(-6, 6, 0.5)]
    assert reached == pytest.approx(max(tried))


def test_thresholds_by_relation_and_the_fallback_for_an_unseen_one() -> None:
    predicates = np.array([0, 0, 0, 1, 1, 1])
    scores, labels = np.array([1.0, 2, 3, 11, 12, 13]), np.array([0.0, 1, 1, 0, 0, 1])
    learned = learned_thresholds(predicates, scores, labels, 3)
    np.testing.assert_allclose(learned, [1.5, 12.5, 1.5])
    np.testing.assert_allclose(median_thresholds(predicates, scores, 3), [2, 12, 7])


@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(1, 4)), min_size=1, max_size=20))
def test_the_weighted_median_is_the_median_of_copies(rows) -> None:
    values, times = (np.array(column) for column in zip(*rows, strict=True))
    assert weighted_median(values.astype(float), times.astype(float)) == np.median(np.repeat(values, times))


def test_weighted_accuracy_by_hand() -> None:
    assert accuracy(np.array([True, False]), np.array([1.0, 1]), np.array([3.0, 1])) == 0.75
