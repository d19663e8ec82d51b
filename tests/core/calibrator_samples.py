"""Samples and calibrators shared by the tests of calibration."""

from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from scipy.special import expit

from kgcore.base_rate import ASSUMED, BaseRate
from kgcore.calibrate.base import Calibrator
from kgcore.calibrate.calibrated import Calibrated
from kgcore.calibrate.fit import calibration_bases, fit_calibrators
from kgcore.calibrate.sample import CalibrationSample
from kgcore.config import CalibrateConfig, CorruptConfig
from kgcore.registries import BASELINES, CALIBRATORS
from kgcore.scores.table import ScoreTable

EVERY = sorted([*CALIBRATORS.names(), *BASELINES.names()])
# These calibrators count rows, so a row of weight 2 is not two rows. test_calibrator_invariances.py says what holds.
COUNTING = {"platt", "beta", "smoothed_isotonic", "bbq", "venn_abers", "per_relation"}
GRID = np.linspace(-12, 12, 97)
quiet = pytest.mark.filterwarnings("ignore:the scores rank positives below")


def drawn(seed: int, n: int = 400, decimals: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Draw scores f, and labels whose true log-odds are 1.5 f - 0.5."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=n).round(decimals)
    return scores, (rng.random(n) < expit(1.5 * scores - 0.5)).astype(float)


def bent(seed: int, n: int = 600) -> tuple[np.ndarray, np.ndarray]:
    """Draw scores, and labels whose true log-odds rise three times as steeply below the score 0 as above it."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=n)
    return scores, (rng.random(n) < expit(np.where(scores < 0, 3 * scores, scores))).astype(float)


def samples() -> st.SearchStrategy[CalibrationSample]:
    """Draw small samples with ties, whole-number weights and both labels."""

    @st.composite
    def build(draw: st.DrawFn) -> CalibrationSample:
        n = draw(st.integers(2, 30))
        scores = draw(st.lists(st.integers(-8, 8), min_size=n, max_size=n))
        labels = draw(st.lists(st.integers(0, 1), min_size=n, max_size=n).filter(lambda y: 0 < sum(y) < len(y)))
        weights = draw(st.lists(st.integers(1, 4), min_size=n, max_size=n))
        return CalibrationSample(*(np.array(v, dtype=float) for v in (scores, labels, weights)))

    return build()


def any_scores() -> st.SearchStrategy[CalibrationSample]:
    """Draw samples with finite scores of any size and spacing, and with any weights."""

    @st.composite
    def build(draw: st.DrawFn) -> CalibrationSample:
        n = draw(st.integers(2, 25))
        scores = draw(st.lists(st.floats(-1e6, 1e6), min_size=n, max_size=n))
        scores = [score if abs(score) > 1e-100 else 0.0 for score in scores]  # smaller gaps give infinite slopes
        labels = draw(st.lists(st.integers(0, 1), min_size=n, max_size=n).filter(lambda y: 0 < sum(y) < len(y)))
        weights = draw(st.lists(st.floats(0.001, 1000), min_size=n, max_size=n))
        return CalibrationSample(*(np.array(v, dtype=float) for v in (scores, labels, weights)))

    return build()


def fitted_to(table: ScoreTable, config: CalibrateConfig, corrupt: CorruptConfig = CorruptConfig()) -> list[Calibrated]:
    """Fit the baselines and the calibrators of a configuration to a score table."""
    return fit_calibrators(table, config, calibration_bases(table, config, corrupt))


def bound_to(
    name: str,
    negatives: str,
    base_rate: float | BaseRate,
    model: str,
    dataset: str,
    calibrator: Calibrator,
    **further: Any,
) -> Calibrated:
    """Return a fitted map with its model, its data set and its base rate."""
    rate = base_rate if isinstance(base_rate, BaseRate) else BaseRate(base_rate, origin=ASSUMED)
    terms = {"negatives": negatives, "rate": rate, "dataset": dataset}
    return Calibrated(name=name, calibrator=calibrator, model=model, **terms, **further)
