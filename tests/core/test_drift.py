"""Bootstrap, gate and drift: oracles by hand and by simulation, and what sampling alone must not raise."""

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm

from kgcore.config import GateConfig, WatchConfig
from kgcore.errors import InputError
from kgcore.metrics.bootstrap import bootstrap
from kgcore.monitoring.drift import calibration_in_the_large, look, spiegelhalter, stability
from kgcore.monitoring.gate import gate


def world(rng: np.random.Generator, n: int, shift: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores, the probabilities that a calibrator of scores without shift gives them, and labels."""
    scores = rng.normal(size=n) * 2
    return scores, expit(scores), (rng.random(n) < expit(scores + shift)).astype(float)


def test_the_interval_of_a_mean_is_the_textbook_s(rng: np.random.Generator) -> None:
    values = rng.exponential(size=400)
    found = bootstrap(lambda rows: float(values[rows].mean()), 400, rng, 0.9, 2000)
    half = norm.ppf(0.95) * values.std(ddof=1) / 20
    assert found.value == pytest.approx(values.mean())
    assert found.high - found.value == pytest.approx(half, rel=0.06)
    assert found.value - found.low == pytest.approx(found.high - found.value)


def test_the_gate_passes_the_better_alone(rng: np.random.Generator) -> None:
    _, q, y = world(rng, 4000)
    vague, w = 0.5 + (q - 0.5) / 2, np.ones(4000)
    assert gate(q, vague, y, w, GateConfig()).passed
    assert not gate(vague, q, y, w, GateConfig()).passed
    same = gate(q, q, y, w, GateConfig())
    assert (same.brier.value, same.brier.low, same.brier.high) == (0, 0, 0)
    assert not same.passed
    assert "is not better beyond the interval" in same.reason()


def test_the_first_champion_has_to_beat_the_base_rate(rng: np.random.Generator) -> None:
    _, q, y = world(rng, 2000)
    found = gate(q, None, y, np.ones(2000), GateConfig())
    assert found.passed
    assert found.ece is None
    assert found.brier.value == pytest.approx(y.mean() * (1 - y.mean()) - np.mean((q - y) ** 2))
    assert not gate(np.full(2000, y.mean()), None, y, np.ones(2000), GateConfig()).passed


def test_a_sharper_challenger_that_is_worse_calibrated_does_not_pass(rng: np.random.Generator) -> None:
    scores, _, y = world(rng, 6000)
    over = expit(1.6 * scores)  # overconfident, and still of a better Brier score than a calibrated vague one
    vague = np.full(6000, y.mean())
    found = gate(over, vague, y, np.ones(6000), GateConfig())
    assert found.better
    assert found.worse_calibrated
    assert not found.passed


def test_the_best_of_many_needs_a_wider_interval(rng: np.random.Generator) -> None:
    _, q, y = world(rng, 1000)
    other, w = np.clip(q + rng.normal(size=1000) * 0.02, 0, 1), np.ones(1000)
    one, many = (gate(q, other, y, w, GateConfig(), candidates=n) for n in (1, 64))
    assert many.brier.value == one.brier.value
    ratio = norm.ppf(1 - 0.025 / 64) / norm.ppf(0.975)
    assert (many.brier.high - many.brier.value) / (one.brier.high - one.brier.value) == pytest.approx(ratio)


def test_the_stability_index_by_hand() -> None:
    reference, scores = np.arange(100.0), np.arange(50.0, 100.0)
    found = stability(reference, scores, bins=2)  # halves at 49: 50 and 50 against 0 and 50
    e, a = np.array([50.5, 50.5]) / 101, np.array([0.5, 50.5]) / 51
    assert found.index == pytest.approx(((a - e) * np.log(a / e)).sum())
    assert found.p < 1e-9
    assert stability(reference, reference, bins=2).index == pytest.approx(0)


def test_sampling_alone_raises_p_uniformly(rng: np.random.Generator) -> None:
    reference = rng.normal(size=3000)
    found = np.array([stability(reference, rng.normal(size=400)).p for _ in range(300)])
    for level in (0.05, 0.5):
        assert abs((found < level).mean() - level) < 4 * np.sqrt(level * (1 - level) / 300)
    tests = np.array([(spiegelhalter(q, y), calibration_in_the_large(q, y)) for _, q, y in worlds(rng, 300)])
    assert (np.abs((tests < 0.1).mean(axis=0) - 0.1) < 4 * np.sqrt(0.09 / 300)).all()


def worlds(rng: np.random.Generator, count: int) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    return [world(rng, 300) for _ in range(count)]


def test_weights_of_the_reference_are_its_distribution(rng: np.random.Generator) -> None:
    positives, negatives = rng.normal(2, 1, 500), rng.normal(-2, 1, 500)
    reference = np.r_[positives, negatives]
    weights = np.r_[np.full(500, 0.1), np.full(500, 0.9)]
    scores = np.r_[rng.normal(2, 1, 50), rng.normal(-2, 1, 450)]  # one in ten is positive
    assert stability(reference, scores, weights).p > 0.01
    assert stability(reference, scores).p < 1e-6


@pytest.mark.parametrize(("q", "y", "p"), [([0.0, 1.0], [0.0, 1.0], 1.0), ([0.0, 1.0], [1.0, 1.0], 0.0)])
def test_certain_probabilities_are_right_or_wrong(q: list[float], y: list[float], p: float) -> None:
    assert spiegelhalter(np.array(q), np.array(y)) == p
    assert calibration_in_the_large(np.array(q), np.array(y)) == p


def test_a_look_finds_what_has_drifted_and_nothing_else(rng: np.random.Generator) -> None:
    reference, _, _ = world(rng, 3000)
    ones, config = np.ones(3000), WatchConfig()
    scores, q, y = world(rng, 800)
    assert look(q, scores, y, reference, ones, config).findings == ()
    scores, q, y = world(rng, 800, shift=-1.0)
    [finding] = look(q, scores, y, reference, ones, config).findings
    assert "the probabilities are off" in finding
    moved = scores + 1.5
    found = look(expit(moved), moved, (rng.random(800) < expit(moved)).astype(float), reference, ones, config)
    [finding] = found.findings
    assert "the scores have drifted" in finding
    assert found.metrics()["psi"] == found.psi > 0.2
    assert found.metrics()["brier_low"] < found.metrics()["brier"] < found.metrics()["brier_high"]


def test_too_few_labels_are_not_judged(rng: np.random.Generator) -> None:
    scores, q, y = world(rng, 20)
    with pytest.raises(InputError, match="20 triples can be judged: at least 50 are needed"):
        look(q, scores, y, scores, np.ones(20), WatchConfig())
