"""A bound calibrator: its model, and its file format."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

from kgcore.base_rate import BaseRate, HiddenShare, middle
from kgcore.calibrate.calibrated import FORMAT, Calibrated, CorruptionSettings, stored_class
from kgcore.calibrate.isotonic import Isotonic
from kgcore.calibrate.platt import Platt
from kgcore.calibrate.sample import CalibrationSample, ground_truth_sample, shift
from kgcore.calibrate.support import Support
from kgcore.errors import InputError, MismatchError
from tests.core.calibrator_samples import bound_to, drawn

SCORES = np.linspace(-4, 4, 33)


def bound() -> Calibrated:
    scores, labels = drawn(7)
    platt = Platt().fit_sample(ground_truth_sample(scores, labels))
    return bound_to("platt", "synthetic", 0.5, "a" * 64, "d" * 64, platt)


def test_scores_of_another_model_are_refused() -> None:
    with pytest.raises(
        MismatchError,
        match=r"synthetic\.platt belongs to model aaaaaaaaaaaa, but the scores come from model bbbbbbbbbbbb",
    ):
        bound().predict(SCORES, "b" * 64)


def test_a_bound_calibrator_survives_json() -> None:
    drawn_by = CorruptionSettings({"typed": 0.9, "uniform": 0.1}, "bernoulli", True)
    fitted = replace(bound().at(0.1), corruptions=drawn_by)
    again = Calibrated.from_json(json.loads(json.dumps(fitted.to_json())))
    assert (again.base_rate, again.fitted_at, again.corruptions) == (0.1, 0.5, drawn_by)
    np.testing.assert_array_equal(again.predict(SCORES, "a" * 64), fitted.predict(SCORES, "a" * 64))
    assert again.label == "synthetic.platt"


def fitted_with_support(by_predicate: bool = False) -> Calibrated:
    scores, labels = drawn(7)
    predicates = np.where(np.arange(len(scores)) % 4 == 0, 3, 1)
    sample = CalibrationSample(scores, labels, np.ones(len(scores)), predicates)
    return replace(bound(), calibrator=Platt().fit_sample(sample), support=Support.fit(sample, by_predicate))


def test_an_interval_contains_the_probability_and_moves_with_the_base_rate() -> None:
    fitted = fitted_with_support()
    probabilities = fitted.predict(SCORES, "a" * 64)
    low, high = fitted.interval(SCORES, probabilities)
    assert (low <= probabilities).all()
    assert (probabilities <= high).all()
    assert ((high - low)[8:25] < 0.6).all()
    moved = fitted.at(0.01)
    shifted = moved.interval(SCORES, moved.predict(SCORES, "a" * 64))
    np.testing.assert_allclose(shifted[0], shift(low, 0.5, 0.01), rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(shifted[1], shift(high, 0.5, 0.01), rtol=1e-9, atol=1e-15)


def test_a_predicate_with_few_rows_has_a_wider_interval_than_all_rows_together() -> None:
    fitted, alone = fitted_with_support(), fitted_with_support(by_predicate=True)
    probabilities, rare = fitted.predict(SCORES, "a" * 64), np.full(len(SCORES), 3)
    (low, high), (own_low, own_high) = (one.interval(SCORES, probabilities, rare) for one in (fitted, alone))
    assert (own_high - own_low).mean() > (high - low).mean()
    unknown = alone.interval(SCORES, probabilities, np.full(len(SCORES), 9))
    np.testing.assert_array_equal(unknown[0], np.zeros(len(SCORES)))
    np.testing.assert_array_equal(unknown[1], np.ones(len(SCORES)))


def test_support_counts_the_rows_of_each_predicate() -> None:
    labels, predicates = np.array([1.0, 1, 0, 1, 0, 0, 0]), np.array([0, 0, 0, 2, 2, 2, 2])
    support = Support.fit(CalibrationSample(np.arange(7.0), labels, np.ones(7), predicates), by_predicate=True)
    np.testing.assert_array_equal(support.fewest(np.array([2, 0, 1, 5])), [1, 1, 0, 0])
    assert support.rows == {0: (2, 1), 2: (1, 3)}


@pytest.mark.parametrize("by_predicate", [False, True])
def test_support_survives_json(by_predicate: bool) -> None:
    fitted, predicates = fitted_with_support(by_predicate), np.tile([1, 3, 4], 11)
    data = json.loads(json.dumps(fitted.to_json()))
    again = Calibrated.from_json(data)
    probabilities = fitted.predict(SCORES, "a" * 64)
    for mine, other in zip(
        fitted.interval(SCORES, probabilities, predicates),
        again.interval(SCORES, probabilities, predicates),
        strict=True,
    ):
        np.testing.assert_array_equal(mine, other)
    assert again.support is not None
    assert fitted.support is not None
    assert again.support.rows == fitted.support.rows


def test_without_support_there_is_no_interval() -> None:
    for end in bound().interval(SCORES, np.full(len(SCORES), 0.5)):
        assert np.isnan(end).all()


@pytest.mark.parametrize(
    ("name", "parameters", "expected"),
    [("uncalibrated", {}, expit(SCORES)), ("base_rate", {"mean": 0.5}, np.full(33, 0.5))],
)
def test_a_baseline_survives_json(name: str, parameters: dict, expected: np.ndarray) -> None:
    baseline = bound_to(name, "none", 0.5, "m", "d", stored_class(name).from_parameters(parameters))
    read = Calibrated.from_json(json.loads(json.dumps(baseline.to_json())))
    assert read.label == name
    np.testing.assert_allclose(read.predict(SCORES, "m"), expected)


@pytest.mark.parametrize("found", [FORMAT - 1, FORMAT + 1, None])
def test_another_format_is_refused(found: int | None) -> None:
    with pytest.raises(
        InputError, match=f"reads calibrators of format {FORMAT}, not {found}: run the stage that made them"
    ):
        Calibrated.from_json(bound().to_json() | {"format": found})


def test_an_unknown_calibrator_is_refused() -> None:
    with pytest.raises(InputError, match="unknown calibrator 'oracle'"):
        Calibrated.from_json(bound().to_json() | {"name": "oracle"})


@pytest.mark.parametrize("base_rate", [0.5, 0.03])
@pytest.mark.parametrize("above", [0.0, 0.02, 0.5, 0.9, 0.999])
def test_the_lowest_score_of_a_probability_is_found_to_the_bit(base_rate: float, above: float) -> None:
    scores, labels = drawn(7)
    isotonic = Isotonic().fit_sample(ground_truth_sample(scores, labels))
    for fitted in (bound().at(base_rate), replace(bound(), calibrator=isotonic).at(base_rate)):
        lowest = fitted.lowest_score(above, 0)
        if np.isfinite(lowest):
            q = fitted.predict(np.array([np.nextafter(lowest, -np.inf), lowest]), "a" * 64)
            assert q[0] <= above < q[1]
        else:
            end = np.sign(lowest) * np.array([-1e29, 1e29])
            assert ((fitted.predict(end, "a" * 64) > above) == (lowest < 0)).all()


@given(st.floats(0.001, 0.4), st.floats(0.001, 0.4), st.booleans())
def test_an_interval_of_the_base_rate_widens_that_of_a_probability(one: float, other: float, move: bool) -> None:
    """The interval contains the probabilities, and their limits, at both ends of the base rate's interval."""
    low, high = sorted((one, other))
    fitted = fitted_with_support()
    rate = middle(low, high)
    stated = BaseRate(rate, low, high)
    ranged = fitted.at(stated) if move else replace(fitted, rate=stated)
    at_rate = replace(ranged, rate=BaseRate(rate))
    own, q = at_rate.interval(SCORES, ranged.predict(SCORES, "a" * 64)), ranged.predict(SCORES, "a" * 64)
    found = ranged.interval(SCORES, q)
    for end, side in ((low, 0), (high, 1)):
        wanted = shift(own[side], rate, end)
        assert (found[0] <= wanted + 1e-12).all()
        assert (wanted - 1e-12 <= found[1]).all()
        assert (found[0] <= shift(q, rate, end) + 1e-12).all()
        assert (shift(q, rate, end) - 1e-12 <= found[1]).all()


def test_an_interval_of_the_base_rate_is_stored_and_shown() -> None:
    ranged = fitted_with_support().at(BaseRate.read("0.01:0.05"))
    again = Calibrated.from_json(json.loads(json.dumps(ranged.to_json())))
    assert again.rate.limits == (0.01, 0.05)
    assert str(again.rate) == "0.0225 [0.01, 0.05], stated"
    assert again.at(0.3).rate == BaseRate(0.3)


def test_the_hidden_share_survives_json_and_another_base_rate() -> None:
    corrected = replace(fitted_with_support(), hidden=HiddenShare(0.34, 0.3, 0.38))
    data = json.loads(json.dumps(corrected.to_json()))
    assert data["hidden"] == {"share": 0.34, "low": 0.3, "high": 0.38}
    again = Calibrated.from_json(data)
    assert again.hidden == corrected.hidden
    assert again.at(0.02).hidden == corrected.hidden
