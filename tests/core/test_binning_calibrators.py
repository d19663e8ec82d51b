"""BBQ, compared with the formulas of the paper."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from sklearn.isotonic import IsotonicRegression

from kgcore.calibrate.bbq import BBQ, equal_mass, log_evidence
from kgcore.calibrate.sample import ground_truth_sample
from tests.core.calibrator_samples import drawn


@given(st.lists(st.integers(1, 50), min_size=1, max_size=60), st.integers(1, 30))
def test_bins_are_as_equal_as_unsplit_scores_allow(weights: list[int], bins: int) -> None:
    w = np.array(weights, dtype=float)
    starts = equal_mass(w, bins)
    assert starts[0] == 0
    assert (np.diff(starts) > 0).all()
    assert len(starts) <= bins
    masses = np.add.reduceat(w, starts)
    assert (masses <= w.sum() / bins + w.max() + 1e-9).all()


def test_the_evidence_is_the_integral_over_all_shares() -> None:
    positives, rows, rate = np.array([0.0, 3.0, 5.0]), np.array([4.0, 7.0, 6.0]), 0.3
    want = 0.0
    for m, n in zip(positives, rows, strict=True):
        a, b = rate * 2 / 3, (1 - rate) * 2 / 3
        density = math.gamma(a + b) / (math.gamma(a) * math.gamma(b))
        # substitute u = x^a to remove the pole at 0; treat the pole at 1 in the same way
        below = quad(lambda u, m=m, n=n, a=a, b=b: u ** (m / a) * (1 - u ** (1 / a)) ** (n - m + b - 1) / a, 0, 0.5**a)
        above = quad(
            lambda u, m=m, n=n, a=a, b=b: (1 - u ** (1 / b)) ** (m + a - 1) * u ** ((n - m) / b) / b, 0, 0.5**b
        )
        want += math.log(density * (below[0] + above[0]))
    assert log_evidence(positives, rows, rate) == pytest.approx(want, rel=1e-8)


def test_bbq_equals_the_sum_of_the_paper() -> None:
    """Equations 1 to 4 of Naeini et al., with gamma functions, over all binnings of 40 distinct scores."""
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
    np.testing.assert_allclose(
        BBQ().fit_sample(ground_truth_sample(scores, labels)).calibrate(scores[order]), want, atol=1e-9
    )
