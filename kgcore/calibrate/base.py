"""The abstract class of calibrators and the baselines. Every calibrator is a scikit-learn classifier.

Baselines are maps from scores to probabilities that fit no curve to the labels. Calibrators are compared with them.
They have a separate registry, so that no setting can choose one as a calibrator.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from pydantic import FiniteFloat, TypeAdapter
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from kgcore.arrays import Floats, Ints, Probabilities, Scores, as_floats, as_probabilities
from kgcore.calibrate.sample import CalibrationSample
from kgcore.errors import InputError
from kgcore.registries import BASELINES

LARGEST_SCORE = 1e30  # no model has a larger score
# a number, a list, or a number or a pair for each predicate
_PARAMETERS = TypeAdapter(dict[str, FiniteFloat | list[FiniteFloat] | dict[str, FiniteFloat | list[FiniteFloat]]])


class Calibrator(ClassifierMixin, BaseEstimator, ABC):  # type: ignore[misc]  # scikit-learn has no types
    """A map from raw scores to probabilities, non-decreasing in the score. Its input is never a probability.

    To scikit-learn it is a classifier with one feature, the score: `fit`, `predict` and `predict_proba` take any two
    classes, weights and a data frame, and check them. kgcal itself calls `fit_sample` and `calibrate_of` with arrays
    that are checked already.

    Constructor arguments are settings of the fit; each has a default. A fitted parameter is an attribute that ends with
    an underscore.

    by_predicate  whether each predicate has its own map
    fitted        names of the fitted parameters, without the underscore
    classes_      (2,) the class of false triples and that of true ones; after `fit_sample`, 0 and 1
    """

    by_predicate: ClassVar[bool] = False
    fitted: ClassVar[tuple[str, ...]] = ()
    classes_: npt.NDArray[Any]

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None) -> Self:
        """Fit the calibrator to scores, and return it.

        X              (n,) or (n, 1) scores as in `CalibrationSample`. If `by_predicate`, X may be
                       (n, 2): the second column has the position of the predicate in the graph's vocabulary
        y              (n,) two classes. The larger one, such as 1, True or "true", is that of true triples
        sample_weight  (n,) at least 0, of any scale; None: equal weights. Rows of weight 0 are left out

        Raises ValueError for values out of range and for one class or more than two, FitError if the fit does not
        converge.
        """
        columns, targets = validate_data(self, _as_columns(X), y, dtype=np.float64)
        if (kind := type_of_target(targets, input_name="y", raise_unknown=True)) != "binary":
            raise InputError(f"Only binary classification is supported. The type of the target is {kind}.")
        n = len(targets)
        weights = np.ones(n) if sample_weight is None else as_floats("sample_weight", sample_weight, n)
        if (weights < 0).any():
            raise InputError(f"sample_weight has {weights.min():g}: every weight must be at least 0")
        kept = weights > 0
        classes, labels = np.unique(targets[kept], return_inverse=True)
        if len(classes) != 2:
            found = "1 class" if len(classes) == 1 else "0 classes"
            raise InputError(f"y has {found} with a weight above zero: a calibrator needs 2 classes")
        scores, predicates = self._scores_and_predicates(columns[kept])
        self.fit_sample(CalibrationSample(scores, labels.astype(np.float64), weights[kept], predicates))
        self.classes_ = classes
        return self

    def predict_proba(self, X: npt.ArrayLike) -> Floats:
        """Return the probabilities (n, 2) of the classes, in the order of `classes_`. X has the columns as in `fit`.

        If the calibrator is `by_predicate` and X has scores alone, the map that all predicates share is used. Raises
        ValueError for other columns than those of the fit, and NotFittedError before the fit.
        """
        check_is_fitted(self)
        columns = validate_data(self, _as_columns(X), reset=False, dtype=np.float64)
        q = self.calibrate_of(*self._scores_and_predicates(columns))
        return np.stack([1 - q, q], axis=1)

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """Return the more probable class (n,); at probability 1/2, the class of false triples. X: as in `fit`."""
        true = self.predict_proba(X)[:, 1] > 0.5
        classes: npt.NDArray[Any] = self.classes_[true.astype(np.int64)]
        return classes

    @abstractmethod
    def fit_sample(self, sample: CalibrationSample) -> Self:
        """Fit the calibrator to the sample, and return it. Raises FitError if the fit does not converge."""

    @abstractmethod
    def calibrate(self, scores: Scores) -> Probabilities:
        """Map scores (n,), any finite numbers, to probabilities (n,) in [0, 1]."""

    def calibrate_of(self, scores: Scores, predicates: Ints | None) -> Probabilities:
        """Map scores (n,) of triples to probabilities (n,) in [0, 1].

        predicates  (n,) the predicates of the triples. If None, they are unknown, and the map that all predicates
                    share is used for every triple.
        """
        return self.calibrate(scores)

    def set_fitted(self, **parameters: Any) -> Self:
        """Set fitted parameters, named without the underscore, and return the calibrator. A list becomes an array."""
        for name, value in parameters.items():
            setattr(self, f"{name}_", np.array(value, dtype=np.float64) if isinstance(value, list) else value)
        self.classes_ = np.array([0, 1])
        return self

    def parameters(self) -> dict[str, Any]:
        """Return the fitted parameters as JSON values: numbers, lists and dictionaries."""
        values = {name: getattr(self, f"{name}_") for name in self.fitted}
        return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in values.items()}

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> Self:
        """Build the fitted calibrator from the result of `parameters()`; the settings of the fit are the defaults."""
        return cls().set_fitted(**parameters)

    @classmethod
    def stored(cls, parameters: object) -> Self:
        """Build it from the result of `parameters()` in a file. Raises an error unless it is a map to probabilities."""
        given = _PARAMETERS.validate_python(parameters, strict=True)
        built = cls.from_parameters(given)
        if further := sorted(given.keys() - built.parameters().keys()):
            raise InputError(f"parameters has {further[0]}, which {cls.__name__} does not have")
        numbers = [np.ravel(value) for value in built.parameters().values() if isinstance(value, float | list)]
        ends = np.unique(np.concatenate([[-LARGEST_SCORE, LARGEST_SCORE], *numbers]))
        if (np.diff(as_probabilities(built.calibrate(ends))) < -1e-9).any():
            raise InputError("parameters are those of a falling map: probabilities must not fall as scores rise")
        return built

    def _scores_and_predicates(self, columns: Floats) -> tuple[Scores, Ints | None]:
        """Divide the columns of X. Raises InputError for too many columns, and for a wrong position of a predicate."""
        most = 2 if self.by_predicate else 1
        if columns.shape[1] > most:
            wanted = "scores, then positions of predicates" if self.by_predicate else "the scores"
            raise InputError(f"X has {columns.shape[1]} columns: {type(self).__name__} takes at most {most}, {wanted}")
        if columns.shape[1] == 1:
            return columns[:, 0], None
        predicates = columns[:, 1]
        if wrong := predicates[(predicates < 0) | (predicates != np.floor(predicates))].tolist():
            raise InputError(
                f"the second column of X has {wrong[0]:g}: the position of a predicate is a whole number from 0"
            )
        return columns[:, 0], predicates.astype(np.int64)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array = True
        tags.classifier_tags.multi_class = False
        return tags


def _as_columns(X: npt.ArrayLike) -> Any:
    """Return scores (n,) as a column (n, 1). A data frame keeps its type, because scikit-learn reads its names."""
    columns = X if hasattr(X, "ndim") else np.asarray(X)
    return np.reshape(columns, (-1, 1)) if columns.ndim == 1 else columns


@BASELINES.register("uncalibrated")
class Uncalibrated(Calibrator):
    """The usual probability without calibration, q = 1 / (1 + exp(-f)) for a score f (paper, section 5)."""

    def fit_sample(self, sample: CalibrationSample) -> Self:
        return self.set_fitted()

    def calibrate(self, scores: Scores) -> Probabilities:
        return expit(scores)


@BASELINES.register("constant")
@BASELINES.register("base_rate")
class Constant(Calibrator):
    """The best constant: the weighted mean of the labels, which is the base rate or the mean confidence.

    On data with base rate alpha, the Brier score of the constant alpha is alpha (1 - alpha). A useful calibrator has a
    lower Brier score (paper, section 5.2).

    mean_  in [0, 1]
    """

    fitted: ClassVar[tuple[str, ...]] = ("mean",)
    mean_: float

    def fit_sample(self, sample: CalibrationSample) -> Self:
        return self.set_fitted(mean=sample.base_rate)

    def calibrate(self, scores: Scores) -> Probabilities:
        return np.full(len(scores), self.mean_)


@BASELINES.register("constant_by_relation")
class ConstantByRelation(Constant):
    """The best constant by relation; for a relation without rows in the sample, the best constant.

    mean_       in [0, 1]
    relations_  position of the predicate -> the mean confidence of its triples
    """

    by_predicate = True
    fitted = ("mean", "relations")
    relations_: dict[int, float]

    def fit_sample(self, sample: CalibrationSample) -> Self:
        present = () if sample.predicates is None else np.unique(sample.predicates).tolist()
        own = {predicate: sample.predicates == predicate for predicate in present}
        means = {
            predicate: float(np.average(sample.labels[rows], weights=sample.weights[rows]))
            for predicate, rows in own.items()
        }
        return self.set_fitted(mean=sample.base_rate, relations=means)

    def calibrate_of(self, scores: Scores, predicates: Ints | None) -> Probabilities:
        if predicates is None:
            return self.calibrate(scores)
        q = self.calibrate(scores)
        for predicate, mean in self.relations_.items():
            q[predicates == predicate] = mean
        return q

    def parameters(self) -> dict[str, Any]:
        relations = {str(predicate): mean for predicate, mean in self.relations_.items()}
        return super().parameters() | {"relations": relations}

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> Self:
        relations = {int(predicate): float(mean) for predicate, mean in parameters["relations"].items()}
        return cls().set_fitted(mean=parameters["mean"], relations=relations)
