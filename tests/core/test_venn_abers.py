"""Venn-Abers, compared with two isotonic regressions and the published package; and its guarantee."""

from collections import defaultdict
from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from sklearn.isotonic import IsotonicRegression
from venn_abers import VennAbers as PublishedVennAbers

from kgcore.calibrate.isotonic import Isotonic
from kgcore.calibrate.sample import CalibrationSample, ground_truth_sample, synthetic_sample
from kgcore.calibrate.venn_abers import VennAbers
from tests.core.calibrator_samples import drawn, samples


@settings(max_examples=60)
@given(sample=samples())
def test_the_interval_equals_two_isotonic_regressions_per_score(sample: CalibrationSample) -> None:
    unweighted = ground_truth_sample(sample.scores, sample.labels)
    asked = np.arange(-10, 10.5, 2.5)
    p0, p1 = VennAbers().fit_sample(unweighted).interval(asked)
    for label, found in ((0.0, p0), (1.0, p1)):
        for score, level in zip(asked, found, strict=True):
            x, y = np.r_[sample.scores, score], np.r_[sample.labels, label]
            want = IsotonicRegression().fit(x, y).predict([score])[0]
            assert level == pytest.approx(want, abs=1e-9)


def test_the_interval_and_the_merger_agree_with_the_published_package() -> None:
    scores, labels = drawn(11, 300, decimals=2)
    fresh, _ = drawn(12, 300)
    p = expit(scores)
    package = PublishedVennAbers()
    package.fit(np.stack([1 - p, p], axis=1), labels.astype(int))
    q = expit(fresh)
    merged, pair = package.predict_proba(np.stack([1 - q, q], axis=1))
    ours = VennAbers().fit_sample(ground_truth_sample(scores, labels))
    np.testing.assert_allclose(np.stack(ours.interval(fresh), axis=1), pair, atol=1e-6)
    np.testing.assert_allclose(ours.calibrate(fresh), merged[:, 1], atol=1e-6)


@settings(max_examples=100)
@given(sample=samples(), alpha=st.floats(0.02, 0.98))
def test_the_interval_contains_isotonic_regression_at_the_same_base_rate(
    sample: CalibrationSample, alpha: float
) -> None:
    parts = [sample.scores[sample.labels == label] for label in (1, 0)]
    weighted = synthetic_sample(*parts, alpha)
    ours, isotonic = VennAbers().fit_sample(weighted), Isotonic().fit_sample(weighted).calibrate(weighted.scores)
    p0, p1 = ours.interval(weighted.scores)
    assert (p0 <= isotonic + 1e-9).all()
    assert (isotonic <= p1 + 1e-9).all()
    q = ours.calibrate(weighted.scores)
    assert ((q > 0) & (q < 1)).all()


def test_p0_or_p1_is_calibrated_exactly_in_small_samples() -> None:
    """Venn's guarantee: for exchangeable rows the p of the true label is calibrated exactly, E[y | p_y] = p_y.

    The test computes the expectation as a sum over every sample of four rows and a fifth row. All rows come from one
    distribution on three scores.
    """
    law = np.array([[0.2, 0.15, 0.05], [0.1, 0.2, 0.3]])  # label, score
    asked, weight, true = np.arange(3.0), defaultdict(float), defaultdict(float)

    @cache
    def isotonic(f: tuple[int, ...], y: tuple[int, ...], score: float, label: int) -> float:
        return IsotonicRegression().fit([*f, score], [*y, label]).predict([score])[0]

    for y, f in product(product((0, 1), repeat=4), product((0, 1, 2), repeat=4)):
        chance = np.prod(law[list(y), list(f)])
        if 0 < sum(y) < 4:
            pair = VennAbers().fit_sample(ground_truth_sample(np.array(f), np.array(y))).interval(asked)
        else:  # a sample with one label only, which CalibrationSample refuses
            pair = [[isotonic(tuple(sorted(f)), y, score, label) for score in asked] for label in (0, 1)]
        for label, score in product((0, 1), (0, 1, 2)):
            level = round(float(pair[label][score]), 9)
            weight[level] += chance * law[label, score]
            true[level] += chance * law[label, score] * label
    assert len(weight) > 5
    for level in weight:
        assert true[level] / weight[level] == pytest.approx(level, abs=1e-8)
