"""Printed intervals cover the true value; metrics whose intervals would not cover it have none."""

import numpy as np
import pytest

from kgcore.measure.metrics.base import Sample, estimate, every_metric, resampled
from tests.core.judged import measure
from tests.core.samples import DISTORTIONS, calibrated

pytestmark = pytest.mark.long
REPETITIONS, ROWS, LARGE = 80, 400, 200_000
KINDS = ("perfect", "overconfident")
WITHOUT = (
    *("ece", "ece_equal_mass", "smooth_ece"),
    *("brier_miscalibration", "brier_discrimination", "log_loss_miscalibration", "log_loss_discrimination"),
)


OF_CONFIDENCES = {"mean_squared_error", "mean_absolute_error"}  # they are measured against confidences only


def distorted(kind: str, q: np.ndarray) -> np.ndarray:
    return q if kind == "perfect" else DISTORTIONS[kind](q)


def values_of(q: np.ndarray, y: np.ndarray, counts: np.ndarray | None = None) -> dict[str, float]:
    tally = Sample(q, y).tally(counts)
    return {name: tally.once(metric.figure) for name, metric in every_metric().items()}


@pytest.fixture(scope="module")
def coverage() -> dict[tuple[str, str], float]:
    """Return (kind of probabilities, metric) -> share of samples whose 95 % bootstrap interval has the true value."""
    rng = np.random.default_rng(11)
    found = {}
    for kind in KINDS:
        q, y = calibrated(rng, LARGE)
        true, hits = values_of(distorted(kind, q), y), []
        for _ in range(REPETITIONS):
            q, y = calibrated(rng, ROWS)
            q = distorted(kind, q)
            here, drawn = values_of(q, y), [values_of(q, y, counts) for counts in resampled(ROWS, rng, 25)]
            made = {name: estimate(here[name], [one[name] for one in drawn]) for name in here}
            hits.append([own.low <= true[name] <= own.high for name, own in made.items()])
        found |= {(kind, name): share for name, share in zip(true, np.mean(hits, axis=0), strict=True)}
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_the_interval_of_a_metric_covers(coverage: dict[tuple[str, str], float], kind: str) -> None:
    printed = [name for name, metric in every_metric().items() if metric.interval and name not in OF_CONFIDENCES]
    assert min(coverage[kind, name] for name in printed) > 0.86


def test_a_metric_without_an_interval_would_not_cover(coverage: dict[tuple[str, str], float]) -> None:
    without = [name for name, metric in every_metric().items() if not metric.interval]
    assert sorted(without) == sorted(WITHOUT)
    assert max(min(coverage[kind, name] for kind in KINDS) for name in without) < 0.9


def test_only_metrics_with_an_interval_get_one(rng: np.random.Generator) -> None:
    assert set(measure(*calibrated(rng, 300)).intervals) == set(every_metric()) - set(WITHOUT) - OF_CONFIDENCES
