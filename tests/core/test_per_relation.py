"""Calibration with one calibrator per relation."""

import json

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logit

from kgcore.calibration.balance import base_rate_weights
from kgcore.calibration.bound import BoundCalibrator
from kgcore.calibration.per_relation import PerRelation
from kgcore.calibration.sample import CalibrationSample, ground_truth_sample
from kgcore.calibration.smoothed_isotonic import SmoothedIsotonic
from kgcore.errors import InputError
from kgcore.metrics.proper import brier, log_loss

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


def test_a_relation_of_three_triples_stays_near_the_shared_map() -> None:
    scores, labels, predicates = drawn(3000)
    few = np.r_[scores, 0.0, 0.1, 0.2], np.r_[labels, 0, 0, 0], np.r_[predicates, 7, 7, 7]
    fitted = PerRelation().fit_sample(ground_truth_sample(*few))
    z = logit(fitted.calibrate(np.array([0.1])))
    moved = logit(fitted.calibrate_of(np.array([0.1]), np.array([7]))) - z
    assert -0.5 < moved[0] < 0  # three negatives are too little evidence for a fit of their own
    asked = np.linspace(-3, 3, 9)
    unseen = fitted.calibrate_of(asked, np.full(9, 40))
    np.testing.assert_allclose(unseen, fitted.calibrate(asked))
    np.testing.assert_array_equal(
        fitted.calibrate(asked), SmoothedIsotonic().fit_sample(ground_truth_sample(*few)).calibrate(asked)
    )


def test_slope_and_offset_are_the_minimum_of_the_stated_loss() -> None:
    scores, labels, predicates = drawn(400)
    sample = ground_truth_sample(scores, labels, predicates)
    fitted = PerRelation().fit_sample(sample)
    for relation in range(3):
        own = predicates == relation
        z, y = logit(fitted.calibrate(scores[own])), labels[own]

        def loss(theta: np.ndarray, z: np.ndarray = z, y: np.ndarray = y) -> float:
            u = (1 + theta[0]) * z + theta[1]
            return float((np.logaddexp(0, u) - y * u).sum() + theta @ theta / (2 * fitted.tau**2))

        found = minimize(loss, np.zeros(2), bounds=[(-1, None), (None, None)], tol=1e-12)
        np.testing.assert_allclose(fitted.relations_[relation], found.x, atol=1e-4)


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
    bound = BoundCalibrator("per_relation", "ground_truth", 0.5, "m", "d", fitted)
    with pytest.raises(InputError, match="per_relation has a map for each predicate: pass the predicates, too"):
        bound.predict(scores, "m")
    np.testing.assert_array_equal(bound.predict(scores, "m", predicates), fitted.calibrate_of(scores, predicates))
    with pytest.raises(InputError, match="predicates"):
        CalibrationSample(scores, labels, np.ones(100), predicates[:-1])
