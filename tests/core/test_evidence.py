"""The calibration triples behind a probability: counted by hand, and what must not change them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, logit
from scipy.stats import binomtest

from kgcore.answer.calibration_evidence import FEWEST_IN_A_BIN, FEWEST_SIMILAR, evidence_of
from kgcore.calibrate.sample import CalibrationSample, ground_truth_sample, synthetic_sample


def sample_of(seed: int, n: int = 400) -> CalibrationSample:
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=n).round(1)  # with ties
    return ground_truth_sample(scores, (rng.random(n) < expit(2 * scores)).astype(float), rng.integers(0, 3, n))


def test_evidence_by_hand() -> None:
    """Predicate 1 has true triples at 1, ..., 30 and false triples at 1/2, ..., 29 1/2; predicate 0 has one triple."""
    scores = np.r_[np.arange(1, 31), np.arange(30) + 0.5, 15]
    labels, predicates = np.r_[np.ones(30), np.zeros(31)], np.r_[np.ones(60, dtype=int), 0]
    found = evidence_of(ground_truth_sample(scores, labels, predicates), 1, 30.0, 30 / 61)
    assert found is not None
    assert (found.positives, found.negatives) == (30, 30)
    assert (found.positives_below, found.negatives_below) == (29.5, 30)  # an equal score counts half
    near = found.similar
    assert (near.lowest, near.highest, near.median) == (20.5, 30, 25.25)  # 20 triples: 20 > 60^(2/3) = 15.3
    assert (near.positives, near.negatives, near.share) == (10, 10, pytest.approx(0.5))
    exact = binomtest(10, 20).proportion_ci(method="exact")
    assert (near.low, near.high) == (pytest.approx(exact.low), pytest.approx(exact.high))
    assert sum(found.histogram.positives) == 29  # the score 30 is not among the central 98 %
    assert sum(found.histogram.negatives) == 30 - 1


def test_a_predicate_without_calibration_triples_has_no_evidence() -> None:
    assert evidence_of(sample_of(0), 7, 0.0, 0.5) is None


def test_the_share_is_that_of_the_weighted_sample() -> None:
    """With corruptions, the share among similar triples is the one by the weights of the paper's equation 5."""
    rng = np.random.default_rng(3)
    scores = rng.normal(1, 1, 300), rng.normal(-1, 1, 3000)
    predicates = tuple(np.zeros(len(part), dtype=int) for part in scores)
    sample = synthetic_sample(*scores, 0.2, predicates=predicates)
    found = evidence_of(sample, 0, 0.5, 0.2)
    assert found is not None
    rows = (sample.scores >= found.similar.lowest) & (sample.scores <= found.similar.highest)
    assert rows.sum() == found.similar.positives + found.similar.negatives == round(3300 ** (2 / 3))
    assert found.similar.share == pytest.approx(np.average(sample.labels[rows], weights=sample.weights[rows]))
    moved = evidence_of(sample, 0, 0.5, 0.01)
    assert moved is not None
    shift = logit(moved.similar.share) - logit(found.similar.share)
    assert shift == pytest.approx(logit(0.01) - logit(0.2))


def test_the_share_counts_the_dropped_corruptions_of_the_predicate() -> None:
    """Two predicates with the same scores; predicate 1 has a fifth of the corruptions."""
    rng = np.random.default_rng(4)
    scores = rng.normal(1, 1, 4000), rng.normal(-1, 1, 24_000)
    sample = synthetic_sample(*scores, 0.5, predicates=(np.repeat([0, 1], 2000), np.repeat([0, 1], [20_000, 4000])))
    for predicate in (0, 1):
        found = evidence_of(sample, predicate, 0.0, 0.5)
        assert found is not None
        assert found.similar.share == pytest.approx(0.5, abs=0.06)
        rows = (sample.predicates == predicate) & (sample.scores >= found.similar.lowest)
        rows &= sample.scores <= found.similar.highest
        assert found.similar.share == pytest.approx(np.average(sample.labels[rows], weights=sample.weights[rows]))


@given(st.integers(0, 10_000), st.floats(-3, 3))
def test_the_order_of_the_sample_does_not_matter(seed: int, score: float) -> None:
    sample = sample_of(seed)
    order = np.random.default_rng(seed).permutation(len(sample.scores))
    predicates = sample.predicates
    assert predicates is not None
    shuffled = ground_truth_sample(sample.scores[order], sample.labels[order], predicates[order])
    assert evidence_of(sample, 1, score, 0.3) == evidence_of(shuffled, 1, score, 0.3)


@given(st.integers(0, 10_000), st.floats(-4, 4), st.integers(1, 400))
def test_bins_divide_the_triples_of_the_predicate(seed: int, score: float, n: int) -> None:
    sample = sample_of(seed, 400)
    kept = np.arange(400) < n
    kept[[sample.labels.argmax(), sample.labels.argmin()]] = True
    sample = sample.part(kept)
    found = evidence_of(sample, 1, score, 0.3)
    if found is None:
        assert not (sample.predicates == 1).any()
        return
    assert sum(one.positives for one in found.bins) == found.positives
    assert sum(one.negatives for one in found.bins) == found.negatives
    total = found.positives + found.negatives
    for one, following in zip(found.bins, found.bins[1:], strict=False):
        assert one.highest < following.lowest  # equal scores are in one bin
    assert all(one.positives + one.negatives >= min(FEWEST_IN_A_BIN, total) for one in found.bins)
    assert found.similar.positives + found.similar.negatives >= min(FEWEST_SIMILAR, total)
    for one in (*found.bins, found.similar):
        assert 0 <= one.low <= one.share <= one.high <= 1
        assert one.lowest <= one.median <= one.highest


def test_the_interval_contains_the_true_share_in_95_of_100_samples() -> None:
    """Scores in a narrow range, so that the triples near a score have nearly its probability."""
    rng, hits = np.random.default_rng(1), 0
    for _ in range(300):
        scores = rng.uniform(-0.1, 0.1, 200)
        labels = (rng.random(200) < expit(scores)).astype(float)
        found = evidence_of(ground_truth_sample(scores, labels, np.zeros(200, dtype=int)), 0, 0.0, labels.mean())
        assert found is not None
        hits += found.similar.low <= 0.5 <= found.similar.high
    assert hits >= 285 - 8  # Clopper-Pearson intervals are conservative
