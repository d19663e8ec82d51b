"""The gate and its bootstrap interval, compared with results by hand."""

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm, ttest_1samp

from kgcore.arrays import Ints, Labels, Weights
from kgcore.config import GateConfig
from kgcore.measure.metrics.base import bootstrap
from kgcore.wings.monitoring import paired
from kgcore.wings.monitoring.gate import gate, level_of
from kgcore.wings.monitoring.paired import PairedRows, brier_gain, calibration_excess
from tests.core.monitoring_samples import labelled_triples
from tests.core.samples import figure


def test_the_interval_of_a_mean_agrees_with_the_textbook(rng: np.random.Generator) -> None:
    values = rng.exponential(size=400)
    found = bootstrap(lambda rows: float(values[rows].mean()), 400, rng, 2000)
    half = norm.ppf(0.975) * values.std(ddof=1) / 20
    assert found.value == pytest.approx(values.mean())
    assert found.high - found.value == pytest.approx(half, rel=0.06)
    assert found.value - found.low == pytest.approx(found.high - found.value)


def rows_of(y: Labels, w: Weights | None = None, clusters: Ints | None = None, fixed: bool = False) -> PairedRows:
    """Return rows with equal weights and clusters of one row, unless others are given."""
    return PairedRows(
        y, np.ones(len(y)) if w is None else w, np.arange(len(y)) if clusters is None else clusters, fixed
    )


def test_only_the_better_model_passes_the_gate(rng: np.random.Generator) -> None:
    _, q, y = labelled_triples(rng, 4000)
    vague, rows = 0.5 + (q - 0.5) / 2, rows_of(y)
    assert gate(q, vague, rows, GateConfig()).passed
    assert not gate(vague, q, rows, GateConfig()).passed
    same = gate(q, q, rows, GateConfig())
    assert (same.brier.value, same.brier.low, same.brier.high) == (0, 0, 0)
    assert not same.passed
    assert same.calibrated
    assert "its Brier score is not significantly lower" in same.reason()


def test_the_first_champion_must_be_better_than_the_base_rate(rng: np.random.Generator) -> None:
    _, q, y = labelled_triples(rng, 2000)
    found = gate(q, None, rows_of(y), GateConfig())
    assert found.passed
    assert found.calibration is None
    assert found.brier.value == pytest.approx(y.mean() * (1 - y.mean()) - np.mean((q - y) ** 2))
    assert not gate(np.full(2000, y.mean()), None, rows_of(y), GateConfig()).passed


def test_a_sharper_challenger_that_is_worse_calibrated_does_not_pass(rng: np.random.Generator) -> None:
    scores, _, y = labelled_triples(rng, 6000)
    over = expit(1.6 * scores)  # overconfident, but its Brier score is lower than that of the constant
    constant = np.full(6000, y.mean())
    found = gate(over, constant, rows_of(y), GateConfig())
    assert found.better
    assert not found.calibrated
    assert not found.passed
    assert "it is not shown that its calibration error is at most 0.05 higher" in found.reason()


def test_too_few_triples_say_how_many_are_needed(rng: np.random.Generator) -> None:
    _, q, y = labelled_triples(rng, 200)
    found = gate(q, np.full(200, y.mean()), rows_of(y), GateConfig(margin=0.02))
    assert not found.calibrated
    assert found.needed > 200
    assert f"needs about {found.needed:,} triples" in found.reason()


def test_the_gain_agrees_with_a_paired_t_test_and_its_error_with_the_bootstrap(rng: np.random.Generator) -> None:
    _, q, y = labelled_triples(rng, 500)
    other = np.clip(q + rng.normal(size=500) * 0.1, 0, 1)
    g = (other - y) ** 2 - (q - y) ** 2
    found = brier_gain(q, other, rows_of(y))
    assert found.value / found.error == pytest.approx(ttest_1samp(g, 0).statistic)
    w, fixed = np.where(y == 1, 1.0, 3.0), []
    for _ in range(2000):  # each label is resampled apart: the weights fix the base rate
        i = np.r_[rng.choice(np.flatnonzero(y == 1), int(y.sum())), rng.choice(np.flatnonzero(y == 0), int(sum(1 - y)))]
        fixed.append(np.average(g[i], weights=w[i]))
    assert brier_gain(q, other, rows_of(y, w, fixed=True)).error == pytest.approx(np.std(fixed), rel=0.06)


def test_copies_of_a_triple_in_one_cluster_add_no_information(rng: np.random.Generator) -> None:
    _, q, y = labelled_triples(rng, 400)
    other = np.clip(q + rng.normal(size=400) * 0.1, 0, 1)
    many = rows_of(np.repeat(y, 5), clusters=np.repeat(np.arange(400), 5))
    gains = brier_gain(q, other, rows_of(y)), brier_gain(np.repeat(q, 5), np.repeat(other, 5), many)
    assert gains[1].error == pytest.approx(gains[0].error)
    one = calibration_excess(q, other, rows_of(y))
    five = calibration_excess(np.repeat(q, 5), np.repeat(other, 5), many)
    assert (five.value, five.error) == pytest.approx((one.value, one.error))


def test_the_squared_calibration_errors_are_those_of_the_debiased_metric(rng: np.random.Generator) -> None:
    _, q, y = labelled_triples(rng, 3000)
    half = np.r_[np.flatnonzero(y == 1)[:1000], np.flatnonzero(y == 0)[:1000]]
    q, y, w = q[half], y[half], np.ones(2000)
    found = calibration_excess(np.clip(q + 0.1, 0, 1), q, rows_of(y, w))
    rmsce = figure("debiased_rmsce")
    assert found.challenger == pytest.approx(rmsce(np.clip(q + 0.1, 0, 1), y, w, bins=5) ** 2, rel=1e-6)
    assert max(found.champion, 0) == pytest.approx(rmsce(q, y, w, bins=5) ** 2, abs=1e-9)


def test_the_bins_have_equal_mass_if_both_labels_weigh_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paired, "BINS", 2)
    q = np.r_[np.full(6, 0.1), np.full(2, 0.8), np.full(2, 0.1), np.full(4, 0.8)]
    y, w = np.r_[np.zeros(8), np.ones(6)], np.r_[np.full(8, 9.0), np.ones(6)]
    found = calibration_excess(q, np.full(14, 0.5), rows_of(y, w, fixed=True))
    low, high = 2 / 56, 4 / 22  # shares of positives in the bins of .1 and .8, which weigh 56 and 22 of 78
    variances = []
    for share, one in ((low, q == 0.1), (high, q == 0.8)):
        total, squares = w[one].sum(), (w[one] ** 2).sum()
        scale = total**2 / squares / (total**2 / squares - 1)
        variances.append(scale * (w[one] ** 2 * (y[one] - share) ** 2).sum() / total**2)
    square = (56 * ((low - 0.1) ** 2 - variances[0]) + 22 * ((high - 0.8) ** 2 - variances[1])) / 78
    assert found.challenger == pytest.approx(square)


def test_positives_stand_for_negatives_that_are_not_in_the_sample() -> None:
    q, r, y = np.array([0.9, 0.4, 0.1]), np.array([0.3, 0.2, 0.1]), np.array([1.0, 1.0, 0.0])
    w = np.array([0.05, 0.05, 0.9])
    negatives, positives = brier_gain(q, r, rows_of(y, w, fixed=True)).unseen
    p, losses = (q + r) / 2, r**2 - q**2
    odds = w[:2] * (1 - p[:2]) / p[:2]  # weight of the negatives that these two positives stand for
    mean = (odds * losses[:2]).sum() / 0.9
    assert negatives == pytest.approx(0.9 * ((odds * losses[:2] ** 2).sum() - 0.9 * mean**2))
    assert positives == 0  # the negative has the same probability of both models
    one, two = brier_gain(q, r, rows_of(y, w)).unseen  # the base rate of the sample is its own
    assert one == pytest.approx((w**2 * (1 - p) * losses**2).sum())
    assert two == pytest.approx((w**2 * p * ((1 - r) ** 2 - (1 - q) ** 2) ** 2).sum())


def test_too_few_negatives_are_named(rng: np.random.Generator) -> None:
    scores = np.r_[rng.normal(2, 1, 100), rng.normal(-3, 0.3, 100)]  # no negative has a high score
    y, odds = np.r_[np.ones(100), np.zeros(100)], 2 * scores - 2 + np.log(0.01 / 0.99)
    rows = rows_of(y, np.where(y == 1, 0.01, 0.99), fixed=True)
    found = gate(expit(odds + 0.3), expit(odds), rows, GateConfig())
    assert not found.better
    assert found.scarce is not None
    assert (found.scarce.label, found.scarce.found) == (0, 100)
    assert (
        f"100 negatives are too few at this base rate: to show a gain of this size needs about {found.scarce.needed:,}"
        in found.reason()
    )
    assert found.margin == pytest.approx(0.05 * 2 * np.sqrt(0.01 * 0.99))


def test_the_levels_of_all_sittings_add_up_to_alpha() -> None:
    judged = [1, 20, 3, 7] * 5000
    total = sum(m * level_of(k, m, 0.05) for k, m in enumerate(judged, start=1))
    assert total == pytest.approx(0.05, rel=1e-4)
    assert total < 0.05
    assert level_of(1, 1, 0.05) == 0.025


def test_a_stricter_level_widens_the_interval_of_the_gain(rng: np.random.Generator) -> None:
    _, q, y = labelled_triples(rng, 1000)
    other = np.clip(q + rng.normal(size=1000) * 0.02, 0, 1)
    one, many = (gate(q, other, rows_of(y), GateConfig(), level) for level in (None, 0.025 / 64))
    assert many.brier.value == one.brier.value
    ratio = norm.ppf(1 - 0.025 / 64) / norm.ppf(0.975)
    assert (many.brier.high - many.brier.value) / (one.brier.high - one.brier.value) == pytest.approx(ratio)
