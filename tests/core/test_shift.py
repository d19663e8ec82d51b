"""A change of the base rate without a new fit."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.special import expit, logit

from kgcore.base_rate import BaseRate
from kgcore.calibrate.calibrated import Calibrated, stored_class
from kgcore.calibrate.isotonic import Isotonic
from kgcore.calibrate.sample import shift, synthetic_sample
from kgcore.data.graph import KnowledgeGraph
from kgcore.errors import InputError
from kgcore.registries import CALIBRATORS
from tests.core.calibrated_models import calibrated
from tests.core.calibrator_samples import EVERY, bound_to

rates = st.floats(0.01, 0.99)
probabilities = st.lists(st.floats(0, 1, allow_subnormal=False), min_size=1, max_size=20).map(np.array)


def bound(base_rate: float = 0.5, name: str = "platt") -> Calibrated:
    rng = np.random.default_rng(0)
    sample = synthetic_sample(rng.normal(1, 1, 50), rng.normal(-1, 1, 500), base_rate)
    return bound_to(name, "synthetic", base_rate, "m" * 64, "d" * 64, stored_class(name)().fit_sample(sample))


def test_a_shift_by_hand() -> None:
    """Odds 1 become (0.1 / 0.9) / (0.5 / 0.5) = 1 / 9; odds 3 become 1 / 3; the probabilities 0 and 1 do not change."""
    np.testing.assert_allclose(shift(np.array([0, 0.5, 0.75, 1]), 0.5, 0.1), [0, 0.1, 0.25, 1])


@given(probabilities, rates, rates)
def test_a_shift_adds_to_the_log_odds(q: np.ndarray, old: float, new: float) -> None:
    moved = shift(q, old, new)
    np.testing.assert_allclose(moved, expit(logit(q) + logit(new) - logit(old)), rtol=1e-9, atol=1e-300)
    assert (moved[q == 0] == 0).all()
    assert (moved[q == 1] == 1).all()


@given(probabilities, rates, rates, rates)
def test_shifts_add_up_and_can_be_undone(q: np.ndarray, one: float, two: float, three: float) -> None:
    np.testing.assert_allclose(shift(shift(q, one, two), two, three), shift(q, one, three), rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(shift(shift(q, one, two), two, one), q, rtol=1e-12, atol=1e-300)


@given(rates, rates)
def test_the_mean_of_true_probabilities_becomes_the_new_base_rate(old: float, new: float) -> None:
    """Check Bayes' rule by counting: two classes of triples and an observation with three outcomes."""
    given_true, given_false = np.array([0.6, 0.3, 0.1]), np.array([0.1, 0.2, 0.7])
    posterior = old * given_true / (old * given_true + (1 - old) * given_false)
    moved = shift(posterior, old, new)
    assert moved @ (new * given_true + (1 - new) * given_false) == pytest.approx(new)


@pytest.mark.parametrize("wrong", [0.0, 1.0, -0.1, np.nan])
def test_base_rates_and_probabilities_out_of_range_are_refused(wrong: float) -> None:
    with pytest.raises(InputError, match=r"^base_rate is"):
        shift(np.array([0.5]), wrong, 0.5)
    with pytest.raises(InputError, match=r"^new_base_rate is"):
        shift(np.array([0.5]), 0.5, wrong)
    with pytest.raises(InputError, match=r"^base_rate is"):
        bound().at(wrong)
    with pytest.raises(InputError, match="probabilities"):
        shift(np.array([1.5]), 0.5, 0.5)


@settings(max_examples=200)
@given(
    positives=st.lists(st.integers(-9, 12), min_size=1, max_size=25),
    corruptions=st.lists(st.integers(-12, 9), min_size=1, max_size=60),
    old=rates,
    new=rates,
)
def test_shifted_isotonic_equals_a_new_fit_at_the_scores_of_the_sample(positives, corruptions, old, new) -> None:
    """Class weights move no block: the ends of the blocks are corners of the convex hull of the ROC curve.

    That hull does not depend on the base rate. So both ways give every score of the sample the same probability, up to
    rounding.
    """
    both = [np.array(scores, dtype=float) for scores in (positives, corruptions)]
    first, refitted = (Isotonic().fit_sample(synthetic_sample(*both, rate)) for rate in (old, new))
    np.testing.assert_array_equal(first.scores_, refitted.scores_)
    np.testing.assert_allclose(shift(first.probabilities_, old, new), refitted.probabilities_, rtol=1e-9)


@pytest.mark.parametrize("name", ["smoothed_isotonic", "bbq", "venn_abers"])
@settings(max_examples=60)
@given(
    positives=st.lists(st.integers(-9, 12), min_size=1, max_size=25),
    corruptions=st.lists(st.integers(-12, 9), min_size=1, max_size=60),
    old=rates,
    new=rates,
)
def test_shifted_calibrators_that_count_rows_equal_a_new_fit(name, positives, corruptions, old, new) -> None:
    both = [np.array(scores, dtype=float) for scores in (positives, corruptions)]
    first, refitted = (CALIBRATORS.get(name)().fit_sample(synthetic_sample(*both, rate)) for rate in (old, new))
    scores = np.unique(np.concatenate(both))
    if name == "venn_abers":
        for one, two in zip(first.interval(scores), refitted.interval(scores), strict=True):
            np.testing.assert_allclose(shift(one, old, new), two, rtol=1e-9)
    else:
        np.testing.assert_allclose(shift(first.calibrate(scores), old, new), refitted.calibrate(scores), rtol=1e-9)


@pytest.mark.parametrize("name", EVERY)
def test_a_calibrator_at_another_base_rate_survives_json(name: str) -> None:
    fitted, scores = bound(name=name), np.linspace(-4, 4, 33)
    moved = fitted.at(0.1)
    assert (moved.base_rate, moved.label) == (0.1, fitted.label)
    of = fitted.model, np.zeros(len(scores), dtype=np.int64)
    before = fitted.predict(scores, *of)
    np.testing.assert_allclose(moved.predict(scores, *of), shift(before, 0.5, 0.1), rtol=1e-12, atol=1e-300)
    again = Calibrated.from_json(json.loads(json.dumps(moved.to_json())))
    np.testing.assert_array_equal(again.predict(scores, *of), moved.predict(scores, *of))
    assert again.base_rate == 0.1


@given(rates, rates)
def test_moving_a_calibrator_away_and_back_gives_the_same_calibrator(one: float, two: float) -> None:
    fitted = bound()
    assume(one != 0.5)
    assert fitted.at(one).at(two).at(0.5) == fitted.at(0.5)
    assert fitted.at(two).at(one) == fitted.at(one)


def test_a_calibrated_model_predicts_at_another_base_rate(small_graph: KnowledgeGraph) -> None:
    made = calibrated(small_graph)
    model = replace(made, calibrator=replace(made.calibrator, rate=BaseRate(0.4)))
    names = pd.concat(
        [
            small_graph.names_of(small_graph.test.triples),
            pd.DataFrame([["?"] * 3], columns=["subject", "predicate", "object"]),
        ]
    )
    (scores, q, known), (same, moved, _) = model.predict(names), model.predict(names, 0.1)
    np.testing.assert_array_equal(scores, same)
    assert known.sum() == len(names) - 1
    inside = known & (q > 0) & (q < 1)
    assert inside.any()
    np.testing.assert_allclose(logit(moved[inside]), logit(q[inside]) + logit(0.1) - logit(0.4))
    np.testing.assert_array_equal(moved[known & ~inside], q[known & ~inside])
    with pytest.raises(InputError, match="base_rate is 1: it must be above 0 and below 1"):
        model.predict(names, 1)
