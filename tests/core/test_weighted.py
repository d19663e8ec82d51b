"""A calibrator that is fitted to labelled triples, weighted to be like a file whose truth is known."""

import numpy as np
import pytest
from scipy.special import expit

from kgcore.arrays import Floats, Labels, Triples
from kgcore.calibration.bound import BoundCalibrator
from kgcore.calibration.platt import Platt
from kgcore.calibration.sample import CalibrationSample, ground_truth_sample
from kgcore.calibration.shift import shift
from kgcore.evidence.table import Evidence
from kgcore.population.likeness import Likeness, likeness
from kgcore.population.weighted import Weighted, fit_weighted, share_of_true

NAMES = ("score", "degree")
CLOSE, FAR = np.array([3.0, 0.0]), np.array([0.0, 3.0])  # what true triples, and mistakes of another kind, look like


def rows(rng: np.random.Generator, true: int, false: int, mistakes: Floats) -> tuple[Triples, Floats, Labels]:
    """Return triples of distinct entities, their features, and their labels. Mistakes have the given centre."""
    n, labels = true + false, np.r_[np.ones(true), np.zeros(false)]
    centre = np.where(labels[:, None] == 1, CLOSE, mistakes)
    triples = np.column_stack([rng.integers(10**6, size=n), np.zeros(n, dtype=np.int64), rng.integers(10**6, size=n)])
    return triples, rng.normal(size=(n, 2)) + centre, labels


def fitted(seed: int, true: int, false: int, mistakes: Floats) -> tuple[Likeness, Weighted, Floats, Labels]:
    """Weight 1,500 labelled triples to a file. Return the comparison, the fit, and scores and labels of the file."""
    rng = np.random.default_rng(seed)
    known, values, labels = rows(rng, 750, 750, np.zeros(2))
    file, of_file, truth = rows(rng, true, false, mistakes)
    own, other = ((t, Evidence(NAMES, v.astype(np.float32))) for t, v in ((file, of_file), (known, values)))
    predicates = np.zeros(1_500, dtype=np.int64)
    sample = ground_truth_sample(values[:, 0], labels, predicates)
    bound = BoundCalibrator("platt", "ground_truth", 0.5, "m", "d", Platt().fit_sample(sample))
    found = likeness(own, other, np.ones(1_500), rng)
    weighted = CalibrationSample(values[:, 0], labels, found.weights, predicates)
    return found, fit_weighted(bound, weighted, other, own, of_file[:, 0], rng), of_file[:, 0], truth


@pytest.mark.parametrize("share", [0.25, 0.75])
def test_a_file_with_another_share_of_true_triples_is_calibrated(share: float) -> None:
    found, made, scores, truth = fitted(0, int(1_200 * share), int(1_200 * (1 - share)), np.zeros(2))
    assert not found.alike
    assert found.overlaps
    assert made.check.alike
    q = made.bound.predict(scores, "m")
    assert q.mean() == pytest.approx(share, abs=0.07)
    assert made.bound.limits is not None
    low, high = made.bound.limits
    assert low - 0.02 < share < high + 0.02
    assert made.bound.base_rate == pytest.approx(q.mean())
    assert made.bound.base_rate_text.endswith("estimated")
    assert np.mean((q - truth) ** 2) < 0.08


def test_mistakes_that_look_true_are_noticed_though_the_file_overlaps() -> None:
    found, made, _, _ = fitted(1, 400, 800, np.array([2.5, 1.5]))
    assert not found.alike
    assert not made.check.alike


def test_mistakes_of_another_kind_do_not_overlap() -> None:
    found, _, _, _ = fitted(2, 100, 1_100, FAR * 2)
    assert not found.alike
    assert not found.overlaps


def test_the_share_of_true_triples_is_found_from_their_probabilities() -> None:
    rng, x = np.random.default_rng(0), np.linspace(-6, 6, 4_001)
    true, false = np.exp(-((x - 1) ** 2) / 2), np.exp(-((x + 1) ** 2) / 2)
    for share in (0.02, 0.3, 0.9):
        weights = share * true / true.sum() + (1 - share) * false / false.sum()
        drawn = rng.choice(x, 200_000, p=weights)
        found = share_of_true(expit(2 * drawn), 0.5)
        assert found == pytest.approx(share, abs=0.01)
        assert shift(expit(2 * drawn), 0.5, found).mean() == pytest.approx(found, abs=1e-4)
