"""Drift: the stability index, the tests of calibration and a look at a champion, by hand and by simulation."""

import numpy as np
import pytest
from scipy.special import expit

from kgcore.config import WatchConfig
from kgcore.errors import InputError
from kgcore.monitoring.drift import look
from kgcore.monitoring.significance import calibration_in_the_large, spiegelhalter
from kgcore.monitoring.stability import stability
from tests.core.monitoring_samples import labelled_triples


def test_the_stability_index_by_hand() -> None:
    reference, scores = np.arange(100.0), np.arange(50.0, 100.0)
    found = stability(reference, scores, bins=2)  # the bin edge is 49: the counts are 50 and 50, against 0 and 50
    e, a = np.array([50.5, 50.5]) / 101, np.array([0.5, 50.5]) / 51
    assert found.index == pytest.approx(((a - e) * np.log(a / e)).sum())
    assert found.p < 1e-9
    assert stability(reference, reference, bins=2).index == pytest.approx(0)


def test_p_of_the_stability_index_is_uniform_without_drift(rng: np.random.Generator) -> None:
    reference = rng.normal(size=3000)
    found = np.array([stability(reference, rng.normal(size=400)).p for _ in range(300)])
    for level in (0.05, 0.5):
        assert abs((found < level).mean() - level) < 4 * np.sqrt(level * (1 - level) / 300)


def test_p_of_the_calibration_tests_is_uniform_for_true_probabilities(rng: np.random.Generator) -> None:
    triples = [labelled_triples(rng, 300) for _ in range(300)]
    tests = np.array([(spiegelhalter(q, y), calibration_in_the_large(q, y)) for _, q, y in triples])
    assert (np.abs((tests < 0.1).mean(axis=0) - 0.1) < 4 * np.sqrt(0.09 / 300)).all()


def test_the_stability_index_uses_the_weights_of_the_reference(rng: np.random.Generator) -> None:
    positives, negatives = rng.normal(2, 1, 500), rng.normal(-2, 1, 500)
    reference = np.r_[positives, negatives]
    weights = np.r_[np.full(500, 0.1), np.full(500, 0.9)]
    scores = np.r_[rng.normal(2, 1, 50), rng.normal(-2, 1, 450)]  # one triple in ten is positive
    assert stability(reference, scores, weights).p > 0.01
    assert stability(reference, scores).p < 1e-6


def test_empty_scores_have_no_stability_index() -> None:
    with pytest.raises(InputError, match="there are 3 reference scores and 0 new scores: a stability index needs both"):
        stability(np.arange(3.0), np.array([]))


@pytest.mark.parametrize(("q", "y", "p"), [([0.0, 1.0], [0.0, 1.0], 1.0), ([0.0, 1.0], [1.0, 1.0], 0.0)])
def test_certain_probabilities_are_right_or_wrong(q: list[float], y: list[float], p: float) -> None:
    assert spiegelhalter(np.array(q), np.array(y)) == p
    assert calibration_in_the_large(np.array(q), np.array(y)) == p


def test_a_look_finds_what_has_changed_and_nothing_else(rng: np.random.Generator) -> None:
    reference, _, _ = labelled_triples(rng, 3000)
    ones, config = np.ones(3000), WatchConfig()
    scores, q, y = labelled_triples(rng, 800)
    assert look(q, scores, y, reference, ones, config).findings == ()
    scores, q, y = labelled_triples(rng, 800, shift=-1.0)
    [finding] = look(q, scores, y, reference, ones, config).findings
    assert "the probabilities are miscalibrated" in finding
    moved = scores + 1.5
    found = look(expit(moved), moved, (rng.random(800) < expit(moved)).astype(float), reference, ones, config)
    [finding] = found.findings
    assert "the scores have drifted" in finding
    assert found.metrics()["psi"] == found.psi > 0.2
    assert found.metrics()["brier_low"] < found.metrics()["brier"] < found.metrics()["brier_high"]


def test_a_look_at_too_few_triples_is_refused(rng: np.random.Generator) -> None:
    scores, q, y = labelled_triples(rng, 20)
    with pytest.raises(InputError, match="20 new triples have labels and known names: at least 50 are needed"):
        look(q, scores, y, scores, np.ones(20), WatchConfig())
