"""The ablation: what each group of evidence adds."""

import numpy as np
import pytest

from kgcore.combiners.ablation import Ablation, ablate
from kgcore.combiners.base import EvidenceSample

GROUPS = {"score": ("score",), "useful": ("one", "two"), "double": ("three",), "noise": ("four",)}


@pytest.fixture(scope="module")
def found() -> Ablation:
    """`useful` and `double` know the same beyond the score; `noise` knows nothing."""
    rng = np.random.default_rng(5)
    known, score, n = rng.normal(size=4000), rng.normal(size=4000), 4000
    values = np.column_stack([score, known, rng.normal(size=n), known, rng.normal(size=n)]).astype(np.float32)
    labels = (score + 2 * known + rng.normal(size=n) > 0).astype(float)
    names = ("score", "one", "two", "three", "four")
    sample = EvidenceSample(names, values, labels, np.ones(n), rng.integers(0, 3, n))
    return ablate(sample, GROUPS, np.random.default_rng(0))


def test_a_group_counts_by_what_the_others_do_not_know(found: Ablation) -> None:
    by_group = {effect.group: effect for effect in found.effects}
    assert list(by_group) == ["useful", "double", "noise"]
    for name in ("useful", "double"):
        assert by_group[name].added < -10 * by_group[name].added_error
        assert by_group[name].added == pytest.approx(found.every - found.score, abs=0.005)
        assert abs(by_group[name].left) < 0.003
    assert abs(by_group["noise"].added) < 4 * by_group["noise"].added_error
    assert found.rows == 2000


def test_the_brier_scores_are_those_of_fits_that_see_the_signal(found: Ablation) -> None:
    assert 0.15 < found.score < 0.25  # the score knows a sixth of the variance
    assert found.every < 0.5 * found.score


def test_it_is_stored_as_json(found: Ablation) -> None:
    assert Ablation.from_json(found.to_json()) == found
