"""Baselines: what they predict, and that settings do not accept them as calibrators."""

import numpy as np
import pytest
from scipy.special import expit

from kgcore.calibrate.base import Constant, Uncalibrated
from kgcore.calibrate.sample import synthetic_sample
from kgcore.config import CalibrateConfig, EnsembleConfig
from kgcore.errors import InputError
from kgcore.measure.metrics.proper import brier
from kgcore.registries import BASELINES, CALIBRATORS


def test_the_baselines_are_no_calibrators() -> None:
    assert BASELINES.names() == ["base_rate", "constant", "constant_by_relation", "uncalibrated"]
    assert not set(BASELINES.names()) & set(CALIBRATORS.names())


@pytest.mark.parametrize("name", ["uncalibrated", "base_rate"])
@pytest.mark.parametrize(
    ("config", "setting"),
    [
        (CalibrateConfig, lambda name: {"calibrators": ("platt", name)}),
        (EnsembleConfig, lambda name: {"member_calibrator": name}),
        (EnsembleConfig, lambda name: {"recalibrator": name}),
    ],
)
def test_a_baseline_is_refused_as_a_calibrator(config, setting, name: str) -> None:
    with pytest.raises(InputError, match=rf"^unknown calibrator '{name}': the known ones are .*isotonic, .*platt"):
        config(**setting(name))


def test_the_base_rate_has_the_brier_score_of_a_constant() -> None:
    fitted = Constant().fit_sample(synthetic_sample(np.arange(20.0), np.arange(300.0), 0.3))
    labels = np.repeat([1.0, 0.0], [30, 70])
    np.testing.assert_allclose(fitted.calibrate(np.arange(100.0)), 0.3)
    assert brier(fitted.calibrate(np.arange(100.0)), labels) == pytest.approx(0.3 * 0.7)


def test_an_uncalibrated_score_is_read_as_log_odds() -> None:
    np.testing.assert_allclose(Uncalibrated().calibrate(np.array([0.0, np.log(3), -np.log(3)])), [0.5, 0.75, 0.25])
    np.testing.assert_array_equal(Uncalibrated().calibrate(np.array([-800.0, 800.0])), expit([-800.0, 800.0]))
