"""The disagreement of the members of an ensemble, and the error of the triples on which they disagree."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgcore.config import ClassifyConfig
from kgcore.measure.metrics.proper import brier
from kgcore.wings.ensembles.fit import disagreement, disputed, judge
from tests.core.ensemble_samples import fit_pools, independent_members, member_tables


def test_disagreement_by_hand() -> None:
    half = np.array([0.5, 0.5])
    found = disagreement(np.array([[0.0, 1.0], [0.3, 0.3], [0.5, 1.0]]), half)
    last = -(0.75 * np.log(0.75) + 0.25 * np.log(0.25)) - np.log(2) / 2  # H(3/4) - H(1/2) / 2
    np.testing.assert_allclose(found, [np.log(2), 0, last], atol=1e-12)
    np.testing.assert_allclose(disagreement(np.array([[0.0, 1.0]]), np.array([1.0, 0.0])), [0], atol=1e-12)


@settings(max_examples=100)
@given(data=st.data())
def test_disagreement_is_the_mean_divergence_from_the_mixture(data: st.DataObject) -> None:
    m = data.draw(st.integers(1, 5))
    q = np.array(data.draw(st.lists(st.floats(0.001, 0.999), min_size=m, max_size=m)))
    w = np.array(data.draw(st.lists(st.integers(1, 9), min_size=m, max_size=m)), dtype=float)
    w = w / w.sum()
    mixture = w @ q
    divergence = q * np.log(q / mixture) + (1 - q) * np.log((1 - q) / (1 - mixture))
    [found] = disagreement(q[None], w)
    assert found == pytest.approx(w @ divergence, abs=1e-12)
    assert 0 <= found <= np.log(2)


Q, LABELS = np.array([0.1, 0.8, 0.5, 0.4]), np.array([0.0, 1, 1, 1])


def test_the_halves_by_disagreement_by_hand() -> None:
    found = disputed(np.array([0.0, 0.3, 0.1, 0.2]), Q, LABELS, np.ones(4))
    assert found.disagreement == pytest.approx(0.15)
    assert found.brier_agreed == pytest.approx((0.01 + 0.25) / 2)
    assert found.brier_disputed == pytest.approx((0.04 + 0.36) / 2)
    weighted = disputed(np.array([0.0, 0.3, 0.1, 0.2]), Q, LABELS, np.array([3.0, 1, 1, 1]))
    assert weighted.brier_agreed == pytest.approx(0.01)


def test_rows_with_equal_disagreement_on_the_boundary_belong_to_both_halves() -> None:
    """The first row is in one half only; the three other rows share the remaining places in both halves."""
    ties = disputed(np.array([0.0, 0.1, 0.1, 0.1]), Q, LABELS, np.ones(4))
    assert ties.brier_agreed == pytest.approx((0.01 + (0.04 + 0.25 + 0.36) / 3) / 2)
    assert ties.brier_disputed == pytest.approx((0.04 + 0.25 + 0.36) / 3)
    nowhere = disputed(np.zeros(4), Q, LABELS, np.ones(4))
    assert nowhere.brier_agreed == nowhere.brier_disputed == pytest.approx(brier(Q, LABELS))


def test_ensembles_have_larger_errors_where_members_disagree() -> None:
    made, source = member_tables(*independent_members())
    ensembles = fit_pools(made, source)
    judged = judge(ensembles, made, ["a", "b", "c"], 0.5, ClassifyConfig())
    for label in ("ground_truth.linear", "ground_truth.log_odds", "synthetic.linear", "synthetic.log_odds"):
        found = judged.disputed[label]
        assert 0.01 < found.disagreement < np.log(2)
        assert found.brier_disputed > found.brier_agreed + 0.02
        assert found.disagreement == pytest.approx(judged.disagreement[label].mean())
