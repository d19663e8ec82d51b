"""Samples whose negatives have different weights, for methods that count rows."""

import numpy as np
import pytest

from kgcore.answer.calibration_evidence import evidence_of
from kgcore.answer.conformal import conformal_p_values
from kgcore.calibrate.sample import (
    CalibrationSample,
    even_sample,
    ground_truth_sample,
    synthetic_sample,
)

HARD = 0.9  # share of the mistakes with high scores


def mixture(rng: np.random.Generator, n: int = 20_000) -> CalibrationSample:
    """Return positives at 2, hard negatives at 1 and easy ones at -2: as many rows, but hard ones have most weight."""
    scores = np.r_[rng.normal(2, 1, n), rng.normal(1, 1, n), rng.normal(-2, 1, n)]
    labels, weights = np.repeat([1.0, 0.0, 0.0], n), np.repeat([1.0, HARD, 1 - HARD], n)
    return CalibrationSample(scores, labels, weights, np.zeros(3 * n, dtype=np.int64))


def test_mistakes_are_not_selected_more_often_than_the_level(rng: np.random.Generator) -> None:
    sample, new = mixture(rng), rng.normal(np.where(rng.random(20_000) < HARD, 1, -2), 1)
    plain, even = (conformal_p_values(new, own.scores[own.labels == 0]) for own in (sample, even_sample(sample, rng)))
    assert (even <= 0.05).mean() == pytest.approx(0.05, abs=0.008)
    assert (plain <= 0.05).mean() > 0.08  # rows as they are would break the promise


def test_the_share_of_true_triples_is_that_of_the_weights(rng: np.random.Generator) -> None:
    sample = mixture(rng)
    even = even_sample(sample, rng)
    assert even.base_rate == pytest.approx(sample.base_rate)
    near = np.abs(sample.scores) < 0.1
    truth = np.average(sample.labels[near], weights=sample.weights[near])
    found = evidence_of(even, 0, 0.0, sample.base_rate)
    assert found is not None
    assert found.similar.share == pytest.approx(truth, abs=0.03)


def test_a_sample_of_one_rule_stays_as_it_is(rng: np.random.Generator) -> None:
    scores, relations = rng.normal(size=60), np.repeat([0, 1], 30)
    labels = np.tile([1.0, 0.0, 0.0], 20)
    labelled = ground_truth_sample(scores, labels, relations, 0.2)
    kinds = (relations[labels == 1][:-4], relations[labels == 0])  # one relation has fewer positives
    made = synthetic_sample(scores[labels == 1][:-4], scores[labels == 0], 0.1, predicates=kinds)
    assert len(np.unique(made.weights[made.labels == 0])) == 2
    for sample in (labelled, made):
        assert even_sample(sample, rng) is sample


def test_rows_are_drawn_by_weight_as_many_as_there_were(rng: np.random.Generator) -> None:
    sample = mixture(rng, 2_000)
    drawn = even_sample(sample, rng, repeat=True)
    assert len(drawn.labels) == len(sample.labels)
    assert drawn.base_rate == pytest.approx(sample.base_rate)
    negative = drawn.labels == 0
    assert np.ptp(drawn.weights[negative]) < 1e-9
    levels = np.linspace(0.05, 0.95, 10)
    weights, scores = sample.weights[sample.labels == 0], sample.scores[sample.labels == 0]
    order = np.argsort(scores)
    shares = (np.cumsum(weights[order]) - weights[order] / 2) / weights.sum()
    quantiles = np.interp(levels, shares, scores[order])
    assert np.quantile(drawn.scores[negative], levels) == pytest.approx(quantiles, abs=0.01)
    plain = ground_truth_sample(sample.scores, sample.labels, sample.predicates)
    assert even_sample(plain, rng, repeat=True) is plain
