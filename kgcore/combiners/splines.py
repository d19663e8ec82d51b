"""Logistic regression on splines: a sum of one curve for each feature."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from kgcore.arrays import Floats, Ints
from kgcore.combiners.base import Combiner, EvidenceSample
from kgcore.combiners.folds import sample_folds
from kgcore.newton import minimise
from kgcore.registries import COMBINERS

MOST_ROWS = 50_000  # of a fit: more rows would not change 10 coefficients for each feature
FOLDS = 3
RIDGES = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
MOST_PREDICATES, FEWEST_ROWS = 250, 10  # predicates with a level of their own


@dataclass(frozen=True)
class Curve:
    """What one feature adds to the log-odds: linear between knots, constant beyond them.

    knots    (m,) increasing; empty: the feature is not known in the sample
    heights  (m,) what the feature adds at each knot
    missing  what the feature adds if it is not known
    """

    knots: Floats
    heights: Floats
    missing: float

    def at(self, column: npt.NDArray[np.float32]) -> Floats:
        """Return what the feature adds at values (n,)."""
        if not len(self.knots):
            return np.full(len(column), self.missing)
        known = np.interp(column.astype(np.float64), self.knots, self.heights)
        return np.where(np.isnan(column), self.missing, known)


@COMBINERS.register("splines")
class Splines(Combiner):
    """Logistic regression with a piecewise linear curve for each feature and a level for each frequent predicate.

        log-odds = constant + sum_j h_j(x_j) + level(p)

    h_j is a spline of degree 1 on quantiles of the feature (I-splines: Ramsay, Statistical Science 3, 1988). Its
    coefficients are the steps between neighbouring knots; those of the score are at least 0, so its curve does not
    fall. A value that is not known has a coefficient of its own. The squares of all coefficients but the constant have
    a penalty, chosen on held-out folds of the sample. The fit gives positives and negatives the same sum of weights,
    and then adds the log-odds of the sample's base rate.

    A feature contributes h_j minus the mean of h_j in the sample.

    knots  number of knots of a curve, at least 2
    ridge  penalty, relative to the mean log loss; None: chosen on held-out folds
    """

    curves_: tuple[Curve, ...]
    predicates_: Ints
    levels_: Floats
    other_: float
    constant_: float
    ridge_: float

    def __init__(self, knots: int = 8, ridge: float | None = None) -> None:
        self.knots, self.ridge = knots, ridge

    def fit(self, sample: EvidenceSample, rng: np.random.Generator) -> Self:
        balanced = sample.balanced()
        if len(sample) > MOST_ROWS:
            balanced = balanced.part(np.sort(rng.choice(len(sample), MOST_ROWS, replace=False))).balanced()
        basis = _Basis.of(balanced, self.knots)
        columns = basis.columns(balanced.values, balanced.predicates)
        self.ridge_ = _best_ridge(columns, basis, balanced, rng) if self.ridge is None else self.ridge
        beta = _solve(columns, basis, balanced.labels, balanced.weights, self.ridge_)
        means = np.average(columns, axis=0, weights=balanced.weights)
        self.constant_ = float(beta @ means) + sample.prior
        self._set(basis, beta, means)
        return self

    def tuned(self) -> Self:
        return type(self)(self.knots, self.ridge_)

    def log_odds(self, values: npt.NDArray[np.float32], predicates: Ints) -> Floats:
        total = np.full(len(values), self.constant_)
        for part in self._parts(values, predicates):
            total += part
        return total

    def contributions(self, values: npt.NDArray[np.float32], predicates: Ints) -> tuple[float, Floats]:
        return self.constant_, np.column_stack(list(self._parts(values, predicates)))

    def parameters(self) -> dict[str, Any]:
        curves = [
            {"knots": own.knots.tolist(), "heights": own.heights.tolist(), "missing": own.missing}
            for own in self.curves_
        ]
        predicates = {"predicates": self.predicates_.tolist(), "levels": self.levels_.tolist(), "other": self.other_}
        return {"constant": self.constant_, "ridge": self.ridge_, "curves": curves, **predicates}

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> Self:
        built = cls()
        built.constant_, built.ridge_, built.other_ = (parameters[name] for name in ("constant", "ridge", "other"))
        built.curves_ = tuple(
            Curve(np.array(own["knots"]), np.array(own["heights"]), own["missing"]) for own in parameters["curves"]
        )
        built.predicates_ = np.array(parameters["predicates"], dtype=np.int64)
        built.levels_ = np.array(parameters["levels"], dtype=np.float64)
        return built

    def _set(self, basis: "_Basis", beta: Floats, means: Floats) -> None:
        """Turn the coefficients into curves with the mean 0."""
        curves = []
        for knots, own in zip(basis.knots, basis.places, strict=True):
            steps, missing = beta[own][:-1], float(beta[own][-1])
            mean = float(beta[own] @ means[own])
            heights = np.concatenate([[0.0], np.cumsum(steps)])[: len(knots)]
            curves.append(Curve(knots, heights - mean, missing - mean))
        own = basis.predicate_place
        mean = float(beta[own] @ means[own])
        self.curves_, self.predicates_ = tuple(curves), basis.predicates
        self.levels_, self.other_ = beta[own] - mean, -mean

    def _parts(self, values: npt.NDArray[np.float32], predicates: Ints) -> Iterator[Floats]:
        """Yield what each feature, and then the predicate, adds to the log-odds of each row (n,)."""
        for column, curve in enumerate(self.curves_):
            yield curve.at(values[:, column])
        found = np.full(len(predicates), self.other_)
        if len(self.predicates_):
            place = np.minimum(np.searchsorted(self.predicates_, predicates), len(self.predicates_) - 1)
            found = np.where(self.predicates_[place] == predicates, self.levels_[place], found)
        yield found


@dataclass(frozen=True)
class _Basis:
    """The columns of the regression: a constant, then for each feature its steps and `not known`, then predicates."""

    knots: tuple[Floats, ...]
    places: tuple[slice, ...]
    predicates: Ints
    bounded: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, sample: EvidenceSample, most: int) -> Self:
        knots, places, bounded, start = [], [], [False], 1
        for name, column in zip(sample.names, sample.values.T, strict=True):
            known = column[np.isfinite(column)].astype(np.float64)
            levels = np.linspace(0, 1, max(2, most))
            own = np.unique(np.quantile(known, levels, method="nearest")) if len(known) else np.empty(0)
            steps = max(len(own) - 1, 0)
            knots.append(own)
            places.append(slice(start, start + steps + 1))
            bounded += [name == "score"] * steps + [False]
            start += steps + 1
        found, counts = np.unique(sample.predicates, return_counts=True)
        frequent = np.argsort(-counts, kind="stable")[:MOST_PREDICATES]
        predicates = np.sort(found[frequent][counts[frequent] >= FEWEST_ROWS]).astype(np.int64)
        return cls(tuple(knots), tuple(places), predicates, np.array(bounded + [False] * len(predicates)))

    @property
    def predicate_place(self) -> slice:
        return slice(len(self.bounded) - len(self.predicates), len(self.bounded))

    def columns(self, values: npt.NDArray[np.float32], predicates: Ints) -> Floats:
        """Return the columns (n, m). Column k of a feature is the part of step k that its value has passed."""
        found = np.zeros((len(values), len(self.bounded)))
        found[:, 0] = 1.0
        for feature, (knots, place) in enumerate(zip(self.knots, self.places, strict=True)):
            column = values[:, feature].astype(np.float64)
            missing = np.isnan(column)
            passed = np.clip((column[:, None] - knots[:-1]) / np.diff(knots), 0, 1)
            found[:, place] = np.column_stack([np.where(missing[:, None], 0.0, passed), missing])
        found[:, self.predicate_place] = predicates[:, None] == self.predicates
        return found


def _solve(columns: Floats, basis: _Basis, labels: Floats, weights: Floats, ridge: float) -> Floats:
    """Return the coefficients with the smallest mean log loss plus ridge / 2 times their squares."""
    signs, shares = 2 * labels - 1, weights / weights.sum()
    penalty = np.full(columns.shape[1], ridge)
    penalty[0] = 0.0

    def loss(beta: Floats) -> float:
        return float(shares @ np.logaddexp(0, -signs * (columns @ beta)) + penalty @ beta**2 / 2)

    def derivatives(beta: Floats) -> tuple[Floats, Floats]:
        q = expit(columns @ beta)
        hessian = (columns * (shares * q * (1 - q))[:, None]).T @ columns
        return columns.T @ (shares * (q - labels)) + penalty * beta, hessian + np.diag(penalty)

    return minimise("the regression on splines", loss, derivatives, np.zeros(columns.shape[1]), basis.bounded)


def _best_ridge(columns: Floats, basis: _Basis, sample: EvidenceSample, rng: np.random.Generator) -> float:
    """Return the penalty with the lowest log loss on held-out folds."""
    fold, losses = sample_folds(sample, FOLDS, rng), np.zeros(len(RIDGES))
    for own in range(FOLDS):
        held, kept = fold == own, fold != own
        for number, ridge in enumerate(RIDGES):
            beta = _solve(columns[kept], basis, sample.labels[kept], sample.weights[kept], ridge)
            signs = 2 * sample.labels[held] - 1
            losses[number] += sample.weights[held] @ np.logaddexp(0, -signs * (columns[held] @ beta))
    return RIDGES[int(np.argmin(losses))]
