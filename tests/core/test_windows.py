"""The windows of scores behind the limits of probabilities that were calibrated to candidates."""

from dataclasses import replace

import numpy as np
import pytest

from kgcore.calibrate.platt import Platt
from kgcore.calibrate.sample import CalibrationSample, synthetic_sample
from kgcore.mixture.calibrate import Windows, fit_to_candidates
from kgcore.mixture.fit import MixtureOptions, fit_mixture
from tests.core.mixtures import normal_mixture

ROWS = 1_000.0
SHARE = ROWS ** (-1 / 3)  # largest share of a window


def inside(windows: Windows, sample: CalibrationSample, rows: np.ndarray) -> np.ndarray:
    """Return the share of the chosen rows' weight that each window holds."""
    scores, weights = sample.scores[rows], sample.weights[rows]
    held = (windows.start[:, None] <= scores) & (scores <= windows.stop[:, None])
    shares: np.ndarray = held @ weights / weights.sum()
    return shares


@pytest.mark.parametrize("base_rate", [0.02, 0.5, 0.98])
def test_no_window_holds_too_much_of_a_label(base_rate: float) -> None:
    rng = np.random.default_rng(0)
    sample = synthetic_sample(rng.normal(2, 1, 1_000), rng.normal(0, 1, 1_000), base_rate)
    windows = Windows.of(sample, ROWS)
    for rows in (sample.labels == 0, sample.labels == 1, np.ones(len(sample.labels), dtype=bool)):
        held = inside(windows, sample, rows)
        assert held.max() <= SHARE + 4 * sample.weights.max() / sample.weights[rows].sum() + 1e-9
    assert inside(windows, sample, sample.labels == 1).max() > SHARE / 4


def test_a_window_has_equal_weight_on_both_sides() -> None:
    rng = np.random.default_rng(1)
    sample = synthetic_sample(rng.normal(2, 1, 1_000), rng.normal(0, 1, 2_000), 0.1)
    windows = Windows.of(sample, ROWS)
    order = np.argsort(sample.scores)
    mass = np.r_[0.0, np.cumsum(sample.weights[order])]
    start, own, stop = (
        np.searchsorted(sample.scores[order], one) for one in (windows.start, windows.scores, windows.stop)
    )
    left, right = mass[own] - mass[start], mass[stop + 1] - mass[own + 1]
    assert left == pytest.approx(right, abs=2.1 * sample.weights.max())


def test_limits_do_not_trust_the_strategies_if_the_base_rate_is_stated() -> None:
    data = normal_mixture(0, candidates=300)
    found = fit_mixture(data, MixtureOptions(0.5, replicates=20), np.random.default_rng(0))
    bands = [
        fit_to_candidates(data, replace(found, remainder=rest), Platt, 40, np.random.default_rng(0))[1]
        for rest in (0.0, 1e-9)
    ]
    width = [np.mean(band.high - band.low) for band in bands]
    assert width[0] == pytest.approx(width[1], rel=0.2)
