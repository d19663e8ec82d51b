"""Weights that give each relation the base rate, and the calibrators that are fitted with them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from kgcore.calibrate.per_relation import PerRelation
from kgcore.calibrate.sample import (
    LARGEST_FACTOR,
    CalibrationSample,
    base_rate_weights,
    both_labels,
    effective_scales,
    ground_truth_sample,
    synthetic_sample,
)
from kgcore.calibrate.support import Band
from kgcore.errors import FitError
from kgcore.registries import CALIBRATORS
from kgcore.scores.table import CORRUPTION, LABELLED, ScoreTable

ALL_RELATIONS = ("smoothed_isotonic", "isotonic", "beta", "platt", "venn_abers", "bbq")
counts = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=6)


def rows_of(numbers: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    """Return the labels and the predicates of relations with these numbers of positives and negatives."""
    labels = np.concatenate([np.r_[np.ones(p), np.zeros(n)] for p, n in numbers])
    return labels, np.repeat(np.arange(len(numbers)), [p + n for p, n in numbers])


@settings(max_examples=100)
@given(numbers=counts, alpha=st.floats(1e-4, 0.9))
def test_every_relation_has_the_base_rate(numbers: list[tuple[int, int]], alpha: float) -> None:
    labels, predicates = rows_of(numbers)
    weights = base_rate_weights(labels, alpha, predicates)
    assert weights.mean() == pytest.approx(1)
    assert np.average(labels, weights=weights) == pytest.approx(alpha, rel=1e-9)
    for relation in range(len(numbers)):
        own = predicates == relation
        assert np.average(labels[own], weights=weights[own]) == pytest.approx(alpha, rel=1e-9)
    plain = base_rate_weights(labels, alpha)
    heaviest = (weights / weights[labels == 1].max())[labels == 0].max()
    assert heaviest <= LARGEST_FACTOR * (plain[labels == 0] / plain[labels == 1].max()).max() * (1 + 1e-9)


@settings(max_examples=50)
@given(
    positives=st.lists(st.integers(1, 50), min_size=1, max_size=6), eta=st.integers(1, 50), alpha=st.floats(1e-4, 0.9)
)
def test_weights_without_dropped_corruptions_are_those_of_equation_5_to_the_last_bit(
    positives: list[int], eta: int, alpha: float
) -> None:
    labels, predicates = rows_of([(p, eta * p) for p in positives])
    np.testing.assert_array_equal(base_rate_weights(labels, alpha, predicates), base_rate_weights(labels, alpha))


def test_weights_by_hand() -> None:
    """Relation 0 has 2 positives and 4 negatives, relation 1 has 2 and 1: 2/4 and 2/1, where all have 4/5."""
    labels, predicates = rows_of([(2, 4), (2, 1)])
    weights = base_rate_weights(labels, 0.2, predicates)
    expected = np.array([5 / 4] * 2 + [4 * (2 / 4) / (4 / 5)] * 4 + [5 / 4] * 2 + [4 * (2 / 1) / (4 / 5)])
    np.testing.assert_allclose(weights, expected / expected.mean())


def test_a_relation_with_hardly_any_negatives_counts_less() -> None:
    labels, predicates = rows_of([(100, 2000), (100, 1)])
    weights = base_rate_weights(labels, 0.5, predicates)
    own = predicates == 1
    assert weights[own].sum() < 0.06 * weights.sum()
    assert weights[own][labels[own] == 1].sum() == pytest.approx(weights[own][labels[own] == 0].sum())


def test_positives_of_a_relation_without_corruptions_are_left_out() -> None:
    labels, predicates = rows_of([(3, 6), (5, 0), (0, 2)])
    np.testing.assert_array_equal(both_labels(labels, predicates), predicates == 0)
    with pytest.raises(FitError, match="a relation has positives only, or negatives only"):
        base_rate_weights(labels, 0.5, predicates)
    both = np.array([0] * 3 + [1] * 5), np.array([0] * 6)
    sample = synthetic_sample(np.arange(8.0), np.arange(6.0), 0.3, predicates=both)
    assert len(sample.scores) == 9
    assert sample.base_rate == pytest.approx(0.3)
    assert len(synthetic_sample(np.arange(8.0), np.arange(6.0), 0.3, False, both).scores) == 14
    table = ScoreTable(
        np.stack([np.arange(14), np.concatenate(both), np.arange(14)], axis=1),
        np.r_[np.ones(8), np.zeros(6)],
        np.arange(14.0),
        np.repeat("test", 14),
        np.repeat([LABELLED, CORRUPTION], [8, 6]),
        "model",
        "graph",
    )
    assert (table.measured("test").sum(), table.left_out("test")) == (9, 5)


def two_relations(alpha: float, seed: int = 0) -> CalibrationSample:
    """Two relations with the same scores; 80 % of the corruptions of the second were dropped."""
    rng = np.random.default_rng(seed)
    positives, corruptions = rng.normal(1, 1, 6000), rng.normal(-1, 1, 36_000)
    return synthetic_sample(
        positives, corruptions, alpha, predicates=(np.repeat([0, 1], 3000), np.repeat([0, 1], [30_000, 6000]))
    )


@pytest.mark.parametrize("alpha", [0.5, 0.1])
@pytest.mark.parametrize("name", [*ALL_RELATIONS, "per_relation"])
def test_dropped_corruptions_do_not_move_the_probability(name: str, alpha: float) -> None:
    """At score 0 the likelihood ratio is 1, so the probability is the base rate, in both relations."""
    fitted = CALIBRATORS.get(name)().fit_sample(two_relations(alpha))
    q = fitted.calibrate_of(np.zeros(2), np.arange(2))
    np.testing.assert_allclose(q, alpha, atol=0.05 if alpha == 0.5 else 0.025)


@pytest.mark.parametrize("name", ALL_RELATIONS)
def test_the_mean_probability_of_balanced_relations_is_the_base_rate(name: str) -> None:
    sample = two_relations(0.05, seed=1)
    q = CALIBRATORS.get(name)().fit_sample(sample).calibrate(sample.scores)
    assert np.average(q, weights=sample.weights) == pytest.approx(0.05, rel=0.02)


def test_the_limits_of_balanced_relations_cover() -> None:
    """True probabilities by Bayes' rule. Relation 1 scores lower by 1, and most of its corruptions were dropped."""
    alpha, asked, missed = 0.3, np.linspace(-1.5, 1.5, 7), []
    true, false = (sum(norm.pdf(asked, m - r) for r in (0, 1)) for m in (1, -1))
    truth = alpha * true / (alpha * true + (1 - alpha) * false)
    for seed in range(60):
        rng = np.random.default_rng(seed)
        shift_of = np.repeat([0, 1], 300), np.repeat([0, 1], [3000, 600])
        scores = rng.normal(1, 1, 600) - shift_of[0], rng.normal(-1, 1, 3600) - shift_of[1]
        low, high = Band.fit(synthetic_sample(*scores, alpha, predicates=shift_of)).limits(asked)
        missed.append(((truth < low) | (truth > high)).mean())
        assert (high - low).mean() < 0.6
    assert np.mean(missed) <= 0.05


@pytest.mark.parametrize("labelled", [True, False])
def test_positives_alone_do_not_raise_the_probability_of_their_relation(labelled: bool) -> None:
    rng = np.random.default_rng(3)
    scores = np.r_[rng.normal(1, 1, 1000), rng.normal(-1, 1, 1000)]
    labels, predicates = np.repeat([1.0, 0.0], 1000), np.zeros(2000, dtype=np.int64)
    alone = rng.normal(1, 1, 100), np.ones(100), np.ones(100, dtype=np.int64)
    scores, labels, predicates = (np.r_[a, b] for a, b in zip((scores, labels, predicates), alone, strict=True))
    if labelled:
        sample = ground_truth_sample(scores, labels, predicates)
    else:
        true = labels == 1
        sample = synthetic_sample(scores[true], scores[~true], 0.5, predicates=(predicates[true], predicates[~true]))
    fitted = PerRelation().fit_sample(sample)
    asked = np.linspace(-2, 2, 9)
    np.testing.assert_allclose(fitted.calibrate_of(asked, np.ones(9, dtype=np.int64)), fitted.calibrate(asked))


def test_effective_scales_by_hand() -> None:
    """One heavy negative is one observation: w^2 / w^2. Positives of weights 1 and 3 are 16 / 10 observations."""
    labels, weights = np.array([1.0, 1, 0]), np.array([1.0, 3, 50])
    negative, positive = effective_scales(labels, weights)
    assert (50 * negative, 4 * positive) == (pytest.approx(1), pytest.approx(1.6))
    assert effective_scales(labels[:2], weights[:2], (0.25, 7))[0] == 0.25
