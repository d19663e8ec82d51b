"""The gate and its bootstrap interval, compared with results by hand."""

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm

from kgcore.config import GateConfig
from kgcore.metrics.bootstrap import bootstrap
from kgcore.monitoring.gate import gate
from tests.core.monitoring_samples import labelled_triples


def test_the_interval_of_a_mean_agrees_with_the_textbook(rng: np.random.Generator) -> None:
    values = rng.exponential(size=400)
    found = bootstrap(lambda rows: float(values[rows].mean()), 400, rng, 0.9, 2000)
    half = norm.ppf(0.95) * values.std(ddof=1) / 20
    assert found.value == pytest.approx(values.mean())
    assert found.high - found.value == pytest.approx(half, rel=0.06)
    assert found.value - found.low == pytest.approx(found.high - found.value)


def test_only_the_better_model_passes_the_gate(rng: np.random.Generator) -> None:
    _, q, y = labelled_triples(rng, 4000)
    vague, w = 0.5 + (q - 0.5) / 2, np.ones(4000)
    assert gate(q, vague, y, w, GateConfig()).passed
    assert not gate(vague, q, y, w, GateConfig()).passed
    same = gate(q, q, y, w, GateConfig())
    assert (same.brier.value, same.brier.low, same.brier.high) == (0, 0, 0)
    assert not same.passed
    assert "its Brier score is not significantly lower" in same.reason()


def test_the_first_champion_must_be_better_than_the_base_rate(rng: np.random.Generator) -> None:
    _, q, y = labelled_triples(rng, 2000)
    found = gate(q, None, y, np.ones(2000), GateConfig())
    assert found.passed
    assert found.ece is None
    assert found.brier.value == pytest.approx(y.mean() * (1 - y.mean()) - np.mean((q - y) ** 2))
    assert not gate(np.full(2000, y.mean()), None, y, np.ones(2000), GateConfig()).passed


def test_a_sharper_challenger_that_is_worse_calibrated_does_not_pass(rng: np.random.Generator) -> None:
    scores, _, y = labelled_triples(rng, 6000)
    over = expit(1.6 * scores)  # overconfident, but its Brier score is lower than that of the constant
    constant = np.full(6000, y.mean())
    found = gate(over, constant, y, np.ones(6000), GateConfig())
    assert found.better
    assert found.worse_calibrated
    assert not found.passed


def test_the_best_of_many_candidates_gets_a_wider_interval(rng: np.random.Generator) -> None:
    _, q, y = labelled_triples(rng, 1000)
    other, w = np.clip(q + rng.normal(size=1000) * 0.02, 0, 1), np.ones(1000)
    one, many = (gate(q, other, y, w, GateConfig(), candidates=n) for n in (1, 64))
    assert many.brier.value == one.brier.value
    ratio = norm.ppf(1 - 0.025 / 64) / norm.ppf(0.975)
    assert (many.brier.high - many.brier.value) / (one.brier.high - one.brier.value) == pytest.approx(ratio)
