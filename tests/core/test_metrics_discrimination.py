"""Areas under the ROC and the precision-recall curve, compared with scikit-learn and hand numbers."""

import math

import numpy as np
import pytest
from hypothesis import given
from scipy.special import expit
from sklearn.metrics import average_precision_score, roc_auc_score

from kgcore.measure.metrics.base import Sample
from kgcore.registries import METRICS
from tests.core.samples import both_labels, copies, figure

auroc, average_precision = figure("auroc"), figure("average_precision")


@given(both_labels)
def test_the_areas_equal_those_of_scikit_learn(sample) -> None:
    q, y, w = sample
    assert auroc(q, y, w) == pytest.approx(roc_auc_score(y, q, sample_weight=w), abs=1e-9)
    assert average_precision(q, y, w) == pytest.approx(average_precision_score(y, q, sample_weight=w), abs=1e-9)


@given(both_labels)
def test_the_areas_do_not_depend_on_row_order_or_on_a_rising_transformation(sample) -> None:
    q, y, w = sample
    grid = np.round(q * 64) / 64  # a curve that rises in the numbers as they are stored
    shuffled = np.random.default_rng(0).permutation(len(q))
    for area in (auroc, average_precision):
        assert area(q[shuffled], y[shuffled], w[shuffled]) == pytest.approx(area(q, y, w))
        assert area(expit(grid), y, w) == pytest.approx(area(grid, y, w))
        assert 0 <= area(q, y, w) <= 1 + 1e-12


@given(copies)
def test_a_weight_of_two_equals_two_rows(sample) -> None:
    q, y, times = sample
    repeated = [np.repeat(column, times.astype(int)) for column in (q, y)]
    for area in (auroc, average_precision):
        assert area(q, y, times) == pytest.approx(area(*repeated), nan_ok=True)


def test_ties_by_hand_and_a_constant() -> None:
    q, y = np.array([0.2, 0.5, 0.5, 0.8]), np.array([0.0, 1, 0, 1])
    assert auroc(q, y) == pytest.approx((1 + 0.5 + 1 + 1) / 4)
    assert average_precision(q, y) == pytest.approx((1 + 2 / 3) / 2)
    constant, w = np.full(4, 0.4), np.array([1.0, 1, 3, 3])
    assert auroc(constant, y, w) == 0.5
    assert average_precision(constant, y, w) == pytest.approx(0.5)


def test_the_areas_need_both_labels() -> None:
    q = np.array([0.2, 0.7])
    assert math.isnan(auroc(q, np.zeros(2)))
    assert math.isnan(auroc(q, np.ones(2)))
    assert math.isnan(average_precision(q, np.zeros(2)))
    assert average_precision(q, np.ones(2)) == 1


def test_rows_that_a_resampling_does_not_draw_do_not_count(rng: np.random.Generator) -> None:
    q, y = rng.random(60), (rng.random(60) < 0.5).astype(float)
    counts = rng.integers(0, 3, 60).astype(float)
    drawn, rows = Sample(q, y).tally(counts), np.repeat(np.arange(60), counts.astype(int))
    assert METRICS.get("auroc").figure(drawn) == pytest.approx(roc_auc_score(y[rows], q[rows]))
    assert METRICS.get("average_precision").figure(drawn) == pytest.approx(average_precision_score(y[rows], q[rows]))
