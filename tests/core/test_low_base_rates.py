"""The default calibrators at low base rates, on simulated scores whose true probability is known."""

from pathlib import Path

import numpy as np
import pytest

from docs.scripts import low_base_rates
from docs.scripts.low_base_rates import GRID, measured, population, simulate
from kgcore.calibrate.sample import synthetic_sample
from kgcore.config import CalibrateConfig, CorruptConfig
from kgcore.registries import CALIBRATORS


@pytest.mark.long
@pytest.mark.parametrize(("alpha", "positives"), [(0.5, 100), (1e-2, 100), (1e-2, 500), (1e-3, 500), (1e-4, 100)])
def test_default_calibrators_are_right_at_low_base_rates(alpha: float, positives: int) -> None:
    names, seeds = CalibrateConfig().score_calibrators, 4 if alpha > 1e-4 else 2  # the last sample has a million rows
    samples = [measured(population(alpha), positives, names, seed) for seed in range(seeds)]
    for name, found in zip(names, zip(*samples, strict=True), strict=True):
        np.testing.assert_allclose([one.mean for one in found], 1, atol=0.05, err_msg=name)
        assert np.mean([one.loss for one in found]) < 1.1, name
        assert all(one.right for one in found), name


@pytest.mark.parametrize("name", CalibrateConfig().score_calibrators)
def test_default_calibrators_never_say_0_or_1(name: str) -> None:
    rng = np.random.default_rng(0)
    for alpha in (0.5, 1e-4):
        sample = synthetic_sample(
            rng.normal(9, 1, 100), rng.normal(0, 1, 2000), alpha
        )  # the scores separate the labels
        q = CALIBRATORS.get(name)().fit_sample(sample).calibrate(GRID)
        assert 0 < q.min() < q.max() < 1


def test_an_interrupted_simulation_is_continued(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(low_base_rates, "BASE_RATES", (0.5,))
    monkeypatch.setattr(low_base_rates, "POSITIVES", (30, 50))
    whole, parts = (simulate(2, 1, tmp_path / name) for name in ("whole.csv", "parts.csv"))
    lines = (tmp_path / "parts.csv").read_text().splitlines(keepends=True)
    (tmp_path / "parts.csv").write_text("".join(lines[:7]))  # two samples, of three calibrators each
    keys = ["calibrator", "positives", "seed"]
    again = simulate(2, 1, tmp_path / "parts.csv")
    for one in (parts, again):
        assert one.sort_values(keys, ignore_index=True).equals(whole.sort_values(keys, ignore_index=True))


def test_auto_draws_what_the_base_rate_needs() -> None:
    assert CorruptConfig().eta(3000) == 20
    assert CorruptConfig().eta(5) == 40  # 200 corruptions
    assert [CorruptConfig().eta(n) for n in (50_000, 100_000, 400_000, 5_000_000)] == [20, 10, 2, 1]  # a million
    assert CorruptConfig(for_base_rate=1e-3).eta(3000) == 34  # 100,000
    assert CorruptConfig(for_base_rate=1e-4).eta(500) == 2000
    assert CorruptConfig(for_base_rate=1e-9).eta(1000) == 5000  # no more than 5 million
    assert CorruptConfig(calibration_eta="3", for_base_rate=1e-4).eta(10) == 3
    assert CorruptConfig(calibration_eta=3) == CorruptConfig(calibration_eta="3")  # type: ignore[arg-type]
    assert CorruptConfig(for_base_rate=0.2).settled() == CorruptConfig()
    assert CorruptConfig(for_base_rate=1e-3).settled() != CorruptConfig()
