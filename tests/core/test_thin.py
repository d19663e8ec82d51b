"""Probabilities that the calibration sample is too small for."""

import numpy as np
import pytest

from kgcore.calibrate.calibrated import Calibrated
from kgcore.calibrate.sample import CalibrationSample, synthetic_sample
from kgcore.calibrate.support import Support
from kgcore.calibrate.validation import NEGATIVES, POSITIVES, THIN, cautions, thin_figures, thin_notes
from kgcore.config import CorruptConfig
from kgcore.registries import CALIBRATORS
from tests.core.calibrator_samples import bound_to


def fitted(positives: int, alpha: float, apart: float) -> tuple[Calibrated, CalibrationSample]:
    """Return `beta`, fitted to normal scores with as many negatives as `auto` draws."""
    rng, eta = np.random.default_rng(0), CorruptConfig(for_base_rate=alpha).eta(positives)
    sample = synthetic_sample(rng.normal(apart, 1, positives), rng.normal(0, 1, positives * eta), alpha)
    map_ = CALIBRATORS.get("beta")().fit_sample(sample)
    support = Support.fit(sample, False)
    return bound_to("beta", "synthetic", alpha, "model", "graph", map_, support=support), sample


@pytest.mark.parametrize(
    ("positives", "alpha", "apart", "noted"),
    [
        (500, 0.5, 2, False),
        (500, 0.1, 4, False),
        (3000, 1e-3, 4, False),  # three negatives, of 102,000, have such a probability
        (100, 1e-3, 4, True),
        (500, 0.01, 2, True),
        (500, 0.5, 0.1, False),  # hardly any probability is far from 1/2
        (500, 1e-3, 1, False),  # no positive has such a probability
    ],
)
def test_thin_probabilities_are_named(positives: int, alpha: float, apart: float, noted: bool) -> None:
    bound, sample = fitted(positives, alpha, apart)
    found = thin_figures(bound, sample)
    notes = thin_notes({"synthetic": found | {"overlap": 0.1}})
    assert cautions({"synthetic": found}, f"synthetic.{bound.name}") == notes
    assert cautions({"synthetic": found}, "synthetic.other") == []
    assert len(notes) == noted
    if noted:
        true, thin, false = (int(found[f"{key}.beta"]) for key in (POSITIVES, THIN, NEGATIVES))
        said = f"synthetic.beta ({thin:,} of {true:,}; {false:,} negative{'s' * (false != 1)}). Read"
        assert said in notes[0]


def test_the_counts_are_those_of_the_moved_calibrator() -> None:
    bound, sample = fitted(500, 0.5, 3)
    moved = bound.at(1e-3)
    found = thin_figures(moved, sample)
    q = moved.predict(sample.scores, "model")
    rows = (q > 0.75) & (sample.labels == 1)
    low, _ = moved.interval(sample.scores, q)
    numbers = (rows.sum(), (low[rows] <= 0.5).sum(), (q[sample.labels == 0] > 0.75).sum())
    assert found == {f"{key}.beta": number for key, number in zip((POSITIVES, THIN, NEGATIVES), numbers, strict=True)}
    assert thin_notes({"synthetic": found})
    assert not thin_notes({"synthetic": thin_figures(bound, sample)})


def test_audits_of_earlier_versions_have_no_note() -> None:
    assert thin_notes({"synthetic": {"overlap": 0.1, "effective_sample_size": 100.0}}) == []
