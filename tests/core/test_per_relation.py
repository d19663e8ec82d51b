"""Calibration with one calibrator per relation."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logit

from kgcore.calibrate.isotonic import SmoothedIsotonic
from kgcore.calibrate.per_relation import (
    PRIOR_ROWS,
    PerRelation,
    RelationCounts,
    fit_relations,
    to_effective,
    worth_its_levels,
)
from kgcore.calibrate.sample import CalibrationSample, base_rate_weights, ground_truth_sample, synthetic_sample
from kgcore.errors import InputError
from kgcore.measure.metrics.proper import brier, log_loss
from tests.core.calibrator_samples import bound_to

OFFSETS = np.array([-1.5, 0.0, 1.5])  # of the log-odds of each relation


def drawn(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw scores, labels and predicates of three relations with different log-odds."""
    rng = np.random.default_rng(seed)
    scores, predicates = rng.normal(size=n), rng.integers(0, 3, n)
    return scores, (rng.random(n) < expit(2 * scores + OFFSETS[predicates])).astype(float), predicates


def test_relations_with_different_offsets_get_different_maps() -> None:
    scores, labels, predicates = drawn(6000)
    fitted = PerRelation().fit_sample(ground_truth_sample(scores, labels, predicates))
    fresh, truth, relations = drawn(20_000, seed=1)
    shared, own = fitted.calibrate(fresh), fitted.calibrate_of(fresh, relations)
    assert brier(own, truth) < brier(shared, truth) - 0.015
    assert log_loss(own, truth) < log_loss(shared, truth) - 0.05
    for relation in range(3):
        rows = relations == relation
        assert own[rows].mean() == pytest.approx(truth[rows].mean(), abs=0.02)


def test_a_relation_of_three_triples_stays_near_the_shared_map_if_the_other_relations_do() -> None:
    rng, moved = np.random.default_rng(0), {}
    for apart in (0.0, 1.0):
        scores, predicates = rng.normal(size=3000), rng.integers(0, 20, 3000)
        offsets = apart * rng.normal(size=20)
        labels = (rng.random(3000) < expit(2 * scores + offsets[predicates])).astype(float)
        few = np.r_[scores, 0.0, 0.1, 0.2], np.r_[labels, 0, 0, 0], np.r_[predicates, 77, 77, 77]
        fitted = PerRelation().fit_sample(ground_truth_sample(*few))
        asked = np.linspace(-3, 3, 9)
        z = logit(fitted.calibrate(asked))
        moved[apart] = float((logit(fitted.calibrate_of(asked, np.full(9, 77))) - z).mean())
        unseen = fitted.calibrate_of(asked, np.full(9, 40))
        np.testing.assert_allclose(unseen, fitted.calibrate(asked))
        pooled = SmoothedIsotonic().fit_sample(ground_truth_sample(*few))
        np.testing.assert_array_equal(fitted.calibrate(asked), pooled.calibrate(asked))
    assert -0.2 < moved[0.0] < 0  # three negatives are too little evidence for a fit of their own
    assert moved[1.0] < 3 * moved[0.0]  # unless relations are known to differ


def counted(n: int) -> RelationCounts:
    """Count drawn rows of three relations, with random weights."""
    scores, labels, predicates = drawn(n)
    return RelationCounts.of(predicates, scores, labels, np.random.default_rng(1).uniform(0.5, 2, n))


def test_slope_and_offset_are_the_minimum_of_the_stated_loss() -> None:
    counts = counted(400)
    theta, variances = fit_relations(counts, 0.5)
    for relation in range(3):
        own = counts.relation == relation
        z, m, n = counts.z[own], counts.positives[own], counts.rows[own]

        offset = counts.offset[relation]

        def loss(
            theta: np.ndarray, z: np.ndarray = z, m: np.ndarray = m, n: np.ndarray = n, d: float = offset
        ) -> float:
            u = (1 + theta[0]) * z + theta[1] + d
            return float((n * np.logaddexp(0, u) - m * u).sum() + theta**2 @ (1 / variances) / 2)

        found = minimize(loss, np.zeros(2), bounds=[(-1, None), (None, None)], tol=1e-12)
        np.testing.assert_allclose(theta[:, relation], found.x, atol=0.003)  # the variances end within a thousandth


@pytest.mark.parametrize("apart", [0.0, 0.4, 1.0])
def test_the_variance_between_relations_is_found(apart: float) -> None:
    rng, relations = np.random.default_rng(5), 200
    predicates = np.repeat(np.arange(relations), 60)
    z = rng.normal(size=len(predicates)) * 2
    offsets = apart * rng.normal(size=relations)
    labels = (rng.random(len(z)) < expit(z + offsets[predicates])).astype(float)
    counts = RelationCounts.of(predicates, z, labels, np.ones(len(z)))
    theta, (slope, offset) = fit_relations(counts, 0.5)
    assert np.sqrt(offset) == pytest.approx(apart, rel=0.25, abs=0.2)
    assert np.sqrt(slope) < 0.25  # there is none between slopes
    error = np.sqrt(((theta[1] - offsets) ** 2).mean())
    assert error < max(0.1, min(apart, 0.4) * 1.05)  # no worse than no offsets, or a fit of each relation by itself


def test_counting_rows_changes_nothing_but_their_number(rng: np.random.Generator) -> None:
    z, labels = rng.integers(-3, 4, 2000).astype(float), rng.integers(0, 2, 2000).astype(float)
    relation = rng.integers(0, 4, 2000)
    counts = RelationCounts.of(relation, z, labels, np.ones(2000))
    assert len(counts.z) == 28
    assert counts.rows.sum() == counts.weights.sum() == 2000
    assert counts.sums(counts.positives).tolist() == np.bincount(relation, labels).tolist()
    np.testing.assert_array_equal(counts.offset, 0)


@pytest.mark.parametrize("alpha", [0.5, 1e-3])
def test_the_mean_probability_is_the_base_rate(alpha: float) -> None:
    scores, labels, predicates = drawn(20_000)
    true, false = np.flatnonzero(labels == 1)[:300], np.flatnonzero(labels == 0)
    sample = synthetic_sample(scores[true], scores[false], alpha, predicates=(predicates[true], predicates[false]))
    q = PerRelation().fit_sample(sample).calibrate_of(sample.scores, sample.predicates)
    assert np.average(q, weights=sample.weights) == pytest.approx(alpha, rel=1e-6)


def test_the_number_of_negatives_drawn_does_not_matter() -> None:
    scores, labels, predicates = drawn(60_000)
    true = labels == 1
    offsets = []
    for eta in (1, 5):
        rows = np.random.default_rng(eta).permutation(np.flatnonzero(~true))[: eta * 4000]
        some = np.flatnonzero(true)[:4000]
        both, y = np.r_[some, rows], np.r_[np.ones(len(some)), np.zeros(len(rows))]
        sample = CalibrationSample(scores[both], y, base_rate_weights(y, 0.2), predicates[both])
        fitted = PerRelation().fit_sample(sample)
        assert fitted.calibrate_of(scores, predicates).mean() < 0.5
        offsets.append([b for _, b in fitted.relations_.values()])
    np.testing.assert_allclose(*offsets, atol=0.3)  # one corruption per positive, and five
    assert np.ptp(offsets[0]) > 2


def test_a_slope_is_never_negative() -> None:
    scores, labels, predicates = drawn(3000)
    labels[predicates == 1] = (scores[predicates == 1] < 0).astype(float)  # one relation has inverted labels
    fitted = PerRelation().fit_sample(ground_truth_sample(scores, labels, predicates))
    assert fitted.relations_[1][0] == -1
    for relation in range(3):
        q = fitted.calibrate_of(np.linspace(-4, 4, 50), np.full(50, relation))
        assert (np.diff(q) >= -1e-12).all()


def test_the_order_of_rows_does_not_matter_and_parameters_survive_json(rng: np.random.Generator) -> None:
    scores, labels, predicates = drawn(500)
    orders = np.arange(500), rng.permutation(500)
    samples = [ground_truth_sample(scores[rows], labels[rows], predicates[rows]) for rows in orders]
    fitted, again = [PerRelation().fit_sample(sample) for sample in samples]
    q = fitted.calibrate_of(scores, predicates)
    np.testing.assert_allclose(again.calibrate_of(scores, predicates), q, atol=1e-7)
    stored = PerRelation.from_parameters(json.loads(json.dumps(fitted.parameters())))
    np.testing.assert_array_equal(stored.calibrate_of(scores, predicates), q)


def test_a_bound_calibrator_by_relation_needs_the_predicates() -> None:
    scores, labels, predicates = drawn(100)
    fitted = PerRelation().fit_sample(ground_truth_sample(scores, labels, predicates))
    bound = bound_to("per_relation", "ground_truth", 0.5, "m", "d", fitted)
    with pytest.raises(InputError, match="per_relation has a map for each predicate: pass the predicates, too"):
        bound.predict(scores, "m")
    np.testing.assert_array_equal(bound.predict(scores, "m", predicates), fitted.calibrate_of(scores, predicates))
    with pytest.raises(InputError, match="predicates"):
        CalibrationSample(scores, labels, np.ones(100), predicates[:-1])


def shaped(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Draw scores, labels, predicates and true probabilities; the shape of the odd relations is not that of the even.

    The log-odds of even relations are 4 f. Those of odd ones are constant for f < 0, and reach 2.
    """
    rng = np.random.default_rng(seed)
    scores, predicates = rng.normal(size=n), rng.integers(0, 40, n)
    true = np.where(predicates % 2 == 0, expit(4 * scores), expit(np.clip(4 * scores, 0, 2)))
    return scores, (rng.random(n) < true).astype(float), predicates, true


def test_a_last_curve_corrects_slopes_and_offsets_that_cannot_fit() -> None:
    scores, labels, predicates, _ = shaped(12_000)
    fitted = PerRelation().fit_sample(ground_truth_sample(scores, labels, predicates))
    fresh, _, relations, true = shaped(20_000, seed=1)
    q = fitted.calibrate_of(fresh, relations)
    stored = PerRelation.stored(json.loads(json.dumps(fitted.parameters())))
    np.testing.assert_array_equal(stored.calibrate_of(fresh, relations), q)
    for relation in (0, 1):
        assert (np.diff(fitted.calibrate_of(np.linspace(-4, 4, 200), np.full(200, relation))) >= 0).all()
    assert fitted.last_ is not None
    fitted.last_ = None
    assert brier(q, true) < brier(fitted.calibrate_of(fresh, relations), true)
    unseen = fitted.calibrate_of(fresh, np.full(len(fresh), 40))
    np.testing.assert_array_equal(unseen, stored.calibrate_of(fresh, np.full(len(fresh), 40)))  # both are g


def test_there_is_no_last_curve_where_slopes_and_offsets_fit() -> None:
    for seed in range(10):
        scores, labels, predicates = drawn(3000, seed)
        assert PerRelation().fit_sample(ground_truth_sample(scores, labels, predicates)).last_ is None


def last_curve(log_odds: np.ndarray, sample: CalibrationSample) -> SmoothedIsotonic | None:
    """Return the last curve of rows with these log-odds."""
    by_log_odds = replace(sample, scores=log_odds)
    curve = SmoothedIsotonic().fit_sample(by_log_odds, expit(log_odds + to_effective(sample)), PRIOR_ROWS)
    return worth_its_levels(curve, log_odds, sample)


def test_the_last_curve_has_the_base_rate_and_is_drawn_to_what_it_corrects(rng: np.random.Generator) -> None:
    u = rng.normal(size=4000) * 3
    labels = (rng.random(4000) < expit(u / 3)).astype(float)
    for alpha in (0.5, 0.05):
        sample = CalibrationSample(u, labels, base_rate_weights(labels, alpha))
        curve = last_curve(u + logit(alpha), sample)
        assert curve is not None
        q = curve.calibrate(u + logit(alpha))
        assert np.average(q, weights=sample.weights) == pytest.approx(alpha, rel=1e-6)
        assert abs(logit(q) - logit(alpha) - u / 3).mean() < 0.55  # that of u is 1.6
        assert (q.min() < expit(logit(alpha) - 1.5)) & (q.max() > expit(logit(alpha) + 1.5))


@pytest.mark.parametrize("n", [50, 1000, 4000])
def test_right_log_odds_seldom_get_a_last_curve(n: int) -> None:
    kept = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        u = rng.normal(size=n)
        labels = (rng.random(n) < expit(u)).astype(float)
        kept += last_curve(u, CalibrationSample(u, labels, np.ones(n))) is not None
    assert kept <= 6  # one in ten


def test_a_falling_last_curve_is_refused() -> None:
    scores, labels, predicates, _ = shaped(12_000)
    parameters = PerRelation().fit_sample(ground_truth_sample(scores, labels, predicates)).parameters()
    parameters["last"]["probabilities"].reverse()
    with pytest.raises(InputError, match="falling map"):
        PerRelation.stored(parameters)
