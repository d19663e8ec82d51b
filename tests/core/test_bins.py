"""Bins of features: what scikit-learn finds without weights, and thresholds that divide values as codes do."""

import numpy as np
import pytest
from sklearn.ensemble._hist_gradient_boosting.binning import _find_binning_thresholds

from kgcore.combiners.base import EvidenceSample
from kgcore.combiners.bins import MOST, Bins
from kgcore.combiners.boosted_trees import BoostedTrees


@pytest.mark.parametrize("distinct", [2, 40, MOST, 5_000])
def test_the_ends_are_those_of_scikit_learn(distinct: int) -> None:
    column = np.random.default_rng(0).integers(0, distinct, 20_000).astype(np.float32) / 3
    [ends] = Bins.of(column[:, None]).ends
    np.testing.assert_allclose(ends, np.unique(_find_binning_thresholds(column.astype(np.float64), MOST)))


def test_a_threshold_divides_values_as_their_codes() -> None:
    rng = np.random.default_rng(1)
    values = np.c_[rng.normal(size=3_000), rng.integers(0, 9, 3_000), np.full(3_000, 2.0)].astype(np.float32)
    values[:5, 1] = np.nan
    bins = Bins.of(values)
    codes = bins.codes(values)
    assert np.isnan(codes[:5, 1]).all()
    assert codes[5:].max() <= MOST - 1
    for feature in (0, 1, 2):
        for code in (0.0, 0.5, 3.0, 7.5, 253.5, 260.0):
            below = values[5:, feature].astype(float) <= bins.threshold(feature, code)
            assert np.array_equal(below, codes[5:, feature] <= code)


def test_a_feature_that_only_one_row_knows_does_not_stop_the_fit() -> None:
    """A fold without this row has no number in the column."""
    rng = np.random.default_rng(2)
    values = rng.normal(size=(200, 2)).astype(np.float32)
    values[1:, 1] = np.nan
    labels = (values[:, 0] > 0).astype(np.float64)
    sample = EvidenceSample(("score", "rare"), values, labels, np.ones(200), np.zeros(200, dtype=np.int64))
    found = BoostedTrees(most_trees=5).fit(sample, rng).log_odds(values, sample.predicates)
    assert np.isfinite(found).all()
