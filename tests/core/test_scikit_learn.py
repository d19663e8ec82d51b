"""Every registered calibrator is a scikit-learn classifier: scikit-learn's own checks, and its tools."""

import warnings
from contextlib import nullcontext
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibrationDisplay
from sklearn.compose import make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OrdinalEncoder
from sklearn.utils.estimator_checks import parametrize_with_checks

from kgcore.arrays import Floats
from kgcore.calibrate.base import Calibrator
from kgcore.calibrate.calibrated import stored_class
from kgcore.calibrate.isotonic import Isotonic
from kgcore.calibrate.per_relation import PerRelation
from kgcore.calibrate.platt import Platt
from kgcore.calibrate.sample import CalibrationSample
from kgcore.errors import FitError, InputError
from kgcore.registries import CALIBRATORS
from tests.core.calibrator_samples import COUNTING, EVERY, GRID, drawn

mpl.use("Agg")


class FirstColumn:
    """Makes a calibrator take the first of several columns, because scikit-learn's checks have up to 30 columns."""

    def _scores_and_predicates(self, columns: Floats) -> tuple[Floats, None]:
        return columns[:, 0], None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.one_d_array = False  # otherwise the checks pass only (n,), and do not look at (n, 1)
        tags.classifier_tags.poor_score = True  # the first column alone separates the classes badly
        return tags


for _name in EVERY:  # pickle finds a class by its name in a module
    _kind = stored_class(_name)
    _made = f"First{_kind.__name__}"
    globals()[_made] = type(_made, (FirstColumn, _kind), {"__module__": __name__, "registered": _name})

EXCEPTIONS = {
    "check_fit1d": "scores (n,) are accepted as well as a column (n, 1)",
    "check_fit2d_predict1d": "scores (n,) are accepted as well as a column (n, 1)",
}
COUNTS = {"check_sample_weight_equivalence_on_dense_data": "it counts rows, so a row of weight 2 is not two rows"}


@parametrize_with_checks([globals()[f"First{stored_class(name).__name__}"]() for name in EVERY])
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    exceptions = EXCEPTIONS | (COUNTS if estimator.registered in COUNTING else {})
    fails = check.func.__name__ in exceptions
    with warnings.catch_warnings(), pytest.raises(AssertionError) if fails else nullcontext():
        warnings.filterwarnings("ignore", message="the scores rank positives below")
        check(estimator)


@pytest.mark.parametrize("name", EVERY)
def test_fit_is_the_fit_of_a_sample_to_the_bit(name: str, rng: np.random.Generator) -> None:
    scores, labels = drawn(3)
    weights = rng.random(len(scores)) + 0.1
    expected = stored_class(name)().fit_sample(CalibrationSample(scores, labels, weights)).calibrate(GRID)
    for x, asked in ((scores, GRID), (scores[:, None], GRID[:, None]), (pd.Series(scores), pd.Series(GRID))):
        q = stored_class(name)().fit(x, labels, weights).predict_proba(asked)
        np.testing.assert_array_equal(q[:, 1], expected)
        np.testing.assert_array_equal(q[:, 0], 1 - expected)


@pytest.mark.parametrize("name", EVERY)
def test_a_stored_calibrator_is_a_fitted_classifier(name: str) -> None:
    scores, labels = drawn(4)
    fitted = stored_class(name)().fit(scores, labels)
    stored = stored_class(name).from_parameters(fitted.parameters())
    np.testing.assert_array_equal(stored.predict_proba(GRID), fitted.predict_proba(GRID))
    np.testing.assert_array_equal(stored.predict(GRID), (fitted.predict_proba(GRID)[:, 1] > 0.5).astype(int))
    assert is_classifier(stored)
    with pytest.raises(NotFittedError):
        clone(stored).predict_proba(GRID)


@pytest.mark.parametrize("name", EVERY)
def test_any_two_classes_and_rows_without_weight(name: str) -> None:
    scores, labels = drawn(5)
    words = np.where(labels == 1, "true", "false")
    fitted, plain = stored_class(name)().fit(scores, words), stored_class(name)().fit(scores, labels)
    assert fitted.classes_.tolist() == ["false", "true"]
    np.testing.assert_array_equal(fitted.predict_proba(GRID), plain.predict_proba(GRID))
    assert fitted.predict(GRID).tolist() == np.where(plain.predict(GRID) == 1, "true", "false").tolist()
    wrong = np.r_[scores, GRID], np.r_[labels, GRID < 0], np.r_[np.ones(len(scores)), np.zeros(len(GRID))]
    np.testing.assert_array_equal(stored_class(name)().fit(*wrong).predict_proba(GRID), plain.predict_proba(GRID))


@pytest.mark.parametrize("name", CALIBRATORS.names())
def test_cross_validation_gives_what_a_fit_on_the_other_folds_gives(name: str) -> None:
    scores, labels = drawn(6, 60)
    fold = np.arange(60) % 3
    folds = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(3)]
    q = cross_val_predict(CALIBRATORS.get(name)(), scores[:, None], labels, cv=folds, method="predict_proba")
    for fitted, own in folds:
        alone = CALIBRATORS.get(name)().fit(scores[fitted], labels[fitted])
        np.testing.assert_array_equal(q[own], alone.predict_proba(scores[own]))


def test_a_pipeline_and_a_calibration_display_take_a_calibrator() -> None:
    scores, labels = drawn(7, 2000)
    made = make_pipeline(FunctionTransformer(np.negative), Platt()).fit(-scores[:, None], labels)
    np.testing.assert_array_equal(made.predict_proba(-GRID[:, None]), Platt().fit(scores, labels).predict_proba(GRID))
    shown = CalibrationDisplay.from_estimator(Isotonic().fit(scores, labels), scores[:, None], labels, n_bins=5)
    np.testing.assert_allclose(shown.prob_true, shown.prob_pred, atol=0.02)


def test_settings_are_stored_unchanged_and_can_be_searched() -> None:
    assert clone(PerRelation(tau=2)).get_params() == {"tau": 2}
    scores, labels = drawn(8, 4000)
    relations = np.arange(4000) % 4
    columns = np.stack([scores + relations, relations], axis=1)  # the scores of relations have other levels
    found = GridSearchCV(PerRelation(), {"tau": [0.01, 1.0]}, scoring="neg_brier_score").fit(columns, labels)
    assert found.best_params_ == {"tau": 1.0}
    with pytest.raises(InputError, match=r"is 0: it must be"):
        PerRelation(tau=0.0).fit(scores, labels)


def test_per_relation_takes_the_predicate_as_its_second_column(rng: np.random.Generator) -> None:
    scores, labels = drawn(9, 3000)
    predicates = rng.integers(3, size=3000)
    labels[predicates == 1] = rng.random((predicates == 1).sum()) < 0.9
    both = np.column_stack([scores, predicates])
    fitted = PerRelation().fit(both, labels)
    sample = CalibrationSample(scores, labels, np.ones(3000), predicates)
    expected = PerRelation().fit_sample(sample).calibrate_of(scores, predicates)
    np.testing.assert_array_equal(fitted.predict_proba(both)[:, 1], expected)
    frame = pd.DataFrame({"score": scores, "predicate": np.array(["p0", "p1", "p2"])[predicates]})
    places = make_column_transformer((OrdinalEncoder(), ["predicate"]), remainder="passthrough")
    order = FunctionTransformer(lambda columns: columns[:, ::-1])  # the transformer puts the score last
    q = make_pipeline(places, order, PerRelation()).fit(frame, labels).predict_proba(frame)
    np.testing.assert_array_equal(q[:, 1], expected)
    huge = np.array([[0.3, 2.0**40]])  # a predicate without rows has the shared map
    np.testing.assert_allclose(fitted.predict_proba(huge)[:, 1], fitted.calibrate(np.array([0.3])))


@pytest.mark.parametrize(
    ("kind", "x", "y", "weights", "message"),
    [
        (Platt, [[1, 0], [2, 0]], [0, 1], None, "X has 2 columns: Platt takes at most 1, the scores"),
        (PerRelation, [[1, 0, 0]] * 2, [0, 1], None, "X has 3 columns: PerRelation takes at most 2, scores, then pos"),
        (PerRelation, [[1, 0], [2, 0.5]], [0, 1], None, "the second column of X has 0.5: the position of a predicate"),
        (PerRelation, [[1, 0], [2, -1]], [0, 1], None, "the second column of X has -1: the position of a predicate"),
        (Platt, [1, 2, 3], [0, 1, 2], None, "Only binary classification is supported. The type of the target is mult"),
        (Platt, [1, 2], [1, 1], None, "y has 1 class with a weight above zero: a calibrator needs 2"),
        (Platt, [1, 2, 3], [0, 1, 1], [0, 1, 1], "y has 1 class with a weight above zero: a calibrator needs 2"),
        (Platt, [1, 2], [0, 1], [1, -1], "sample_weight has -1: every weight must be at least 0"),
        (Platt, [1, np.inf], [0, 1], None, "Input X contains infinity"),
    ],
)
def test_input_that_cannot_be_used_is_refused(
    kind: type[Calibrator], x: list[Any], y: list[int], weights: list[int] | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message) as error:
        kind().fit(np.array(x, dtype=float), y, weights)
    assert not isinstance(error.value, FitError)
