"""The calibration sample and the new triples as one table of counts, and the models that are fitted to it."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.special import expit, logit, ndtr, ndtri

from kgcore.arrays import Floats, Ints, Labels, Scores, Weights, as_labels, same_length
from kgcore.calibrate.logistic import Matrix, minimise
from kgcore.calibrate.sample import CalibrationSample, check_base_rate
from kgcore.errors import InputError

OUTER = 0.05  # share of the calibration sample below the first knot, and above the last one
FURTHEST = 3.75  # largest size of a normal score
CELLS, CELLS_BY_PREDICATE = 512, 64
KNOTS, BEND_KNOTS = 7, 5
MOST_PREDICATES = 100  # predicates with effects of their own; the others share the map of all
# Standard deviations of the normal priors. The wide ones only keep the fit finite where the data say nothing.
CONSTANT, LINE, CURVE, PREDICATE, PREDICATE_SLOPE = 30.0, 10.0, 3.0, 1.0, 0.5
SHIFT, SLOPE, BEND = 10.0, 2.0, 5.0
FLAT = 1e-6  # a map with a smaller spread of its log-odds has no slope that could change
Limits = tuple[float, float]  # the ends of a 95 % interval of a base rate


@dataclass(frozen=True)
class GroupedRows:
    """Grouped rows. Each row stands for `count` triples; `positives` of them are true.

    design     (n, m) the columns of the model
    offset     (n,) known part of the log-odds
    count      (n,) number of triples, above 0
    positives  (n,) number of true triples among them
    """

    design: Matrix
    offset: Floats
    count: Floats
    positives: Floats


@dataclass(frozen=True)
class Fit:
    """A fitted model.

    columns     (k,) the columns of the design that the model uses
    values      (k,) their coefficients
    covariance  (k, k) of the coefficients: the inverse of the Hessian
    loss        penalised negative log-likelihood
    """

    columns: Ints
    values: Floats
    covariance: Matrix
    loss: float


def fit(rows: GroupedRows, columns: Ints, precision: Floats) -> Fit:
    """Minimise sum_i [n_i log(1 + exp(z_i)) - s_i z_i] + sum_j precision_j b_j^2 / 2, z = design b + offset.

    columns    (k,) the columns of the design to use
    precision  (m,) 1 / variance of the prior of each column of the design, above 0

    Raises FitError if the fit does not converge.
    """
    design, prior, scale = rows.design[:, columns], precision[columns], float(rows.count.sum())

    def loss(b: Floats) -> float:
        z = design @ b + rows.offset
        return float(rows.count @ np.logaddexp(0, z) - rows.positives @ z + prior @ b**2 / 2) / scale

    def derivatives(b: Floats) -> tuple[Floats, Matrix]:
        q = expit(design @ b + rows.offset)
        gradient = design.T @ (rows.count * q - rows.positives) + prior * b
        hessian = design.T @ (design * (rows.count * q * (1 - q))[:, None]) + np.diag(prior)
        return gradient / scale, hessian / scale

    free = np.zeros(len(columns), dtype=bool)
    values = minimise("the test of drift", loss, derivatives, np.zeros(len(columns)), free)
    covariance: Matrix = np.linalg.inv(derivatives(values)[1] * scale).astype(np.float64)
    return Fit(columns, values, covariance, loss(values) * scale)


def normal_scores(scores: Scores, labels: Labels, counts: Weights | None = None) -> tuple[Scores, Floats]:
    """Return the distinct scores of a calibration sample, ascending, and the normal quantiles of their ranks.

    x(f) = Phi^-1(F(f)), where F is the distribution function of the scores, with mid-ranks for ties. Positives and
    negatives each have half of the weight. F is linear between neighbouring scores, and constant outside of the
    sample. So x depends on the ranks alone: any increasing transformation of all scores gives the same x.

    scores, labels  (n,) and (n,) 0/1, both labels present
    counts          (n,) the number of rows that each row stands for; None: 1
    """
    times = np.ones(len(labels)) if counts is None else counts
    true, false = (times * labels).sum(), (times * (1 - labels)).sum()
    weights = np.where(labels == 1, 0.5 / true, 0.5 / false) * times
    distinct, place = np.unique(scores, return_inverse=True)
    mass = np.bincount(place, weights)
    return distinct, ndtri(np.clip(np.cumsum(mass) - mass / 2, ndtr(-FURTHEST), ndtr(FURTHEST)))


def cells_of(scores: Scores, normal: tuple[Scores, Floats], count: int) -> Ints:
    """Return the cell (n,) of each score, in 0 .. count - 1, by `normal_scores`. All cells have the same width in x."""
    x = np.interp(scores, *normal)
    cells: Ints = np.clip(((x / FURTHEST + 1) / 2 * count).astype(np.int64), 0, count - 1)
    return cells


def spline_columns(x: Floats, weights: Floats, knots: int) -> Floats:
    """Return columns (n, at most knots - 1) that span the natural cubic splines of x, without the constant.

    x        (n,) normal scores
    weights  (n,) weights of the rows, not negative
    knots    number of knots, at least 3: normal quantiles at equally spaced levels from OUTER to 1 - OUTER

    The spline is linear outside of the knots (Hastie, Tibshirani & Friedman, The Elements of Statistical Learning,
    section 5.2.1). The columns have weighted mean 0 and weighted covariance 1, and the first is x, standardised.
    Columns that the rows cannot tell apart, because they have few distinct x, are left out.
    """
    at = ndtri(np.linspace(OUTER, 1 - OUTER, knots))

    def bend(k: int) -> Floats:
        cubes: Floats = np.maximum(x - at[k], 0) ** 3 - np.maximum(x - at[-1], 0) ** 3
        scaled: Floats = cubes / (at[-1] - at[k])
        return scaled

    columns = [np.ones_like(x), x, *(bend(k) - bend(knots - 2) for k in range(knots - 2))]
    share = weights / weights.sum()
    kept: list[Floats] = []
    for column in columns:
        size = np.sqrt(share @ column**2)
        rest = column
        for _ in range(2):  # the second pass removes what rounding errors leave
            for other in kept:
                rest = rest - (share @ (rest * other)) * other
        left = np.sqrt(share @ rest**2)
        if left > 1e-6 * size:
            kept.append(rest / left)
    return np.stack(kept[1:], axis=1) if len(kept) > 1 else np.empty((len(x), 0))


@dataclass(frozen=True)
class NewTriples:
    """New labelled triples: scores (n,), labels (n,) 0/1 and predicates (n,); None if all have the same map."""

    scores: Scores
    labels: Labels
    predicates: Ints | None = None


@dataclass(frozen=True)
class TwoSamples:
    """The rows of both samples, with the columns of all models in this order: map, shift, slope, bend.

    map        1, a spline of the normal score, and for each predicate a constant and a slope; in both samples
    error      1 in the calibration sample, 0 in the new sample: the error of the base rate. Missing if it is exact
    shift      1 in the new sample, 0 in the calibration sample
    slope      log-odds of the map fitted on the calibration sample; 0 in that sample
    bend       a spline of the normal score; 0 in the calibration sample

    rows       one row for each cell, predicate and sample, those of the calibration sample first
    precision  (m,) precision of the prior of each column
    first      number of rows of the calibration sample
    sizes      numbers of columns of map with error, slope and bend
    uncertain  whether the base rate has an error
    """

    rows: GroupedRows
    precision: Floats
    first: int
    sizes: tuple[int, int, int]
    uncertain: bool = False

    @classmethod
    def of(cls, sample: CalibrationSample, base_rate: float, new: NewTriples, limits: Limits | None = None) -> Self:
        """Count both samples. `limits`: see `moves`. Raises InputError as `moves` does."""
        check_base_rate("base_rate", base_rate)
        as_labels(new.labels, same_length(scores=new.scores, labels=new.labels))
        if new.predicates is not None:
            same_length(scores=new.scores, predicates=new.predicates)
        old, later = _cells(sample, new)
        x, groups = (np.r_[getattr(old, name), getattr(later, name)] for name in ("x", "groups"))
        first, weights = len(old.x), np.r_[old.balanced, np.zeros(len(later.x))]
        spline = spline_columns(x, weights, KNOTS)
        line = spline[:, :1] if spline.shape[1] else np.zeros((len(x), 1))
        of_group = (groups[:, None] == np.arange(1, groups.max(initial=0) + 1)).astype(np.float64)
        nuisance = np.concatenate([np.ones((len(x), 1)), spline, of_group, of_group * line], axis=1)
        deviations = [CONSTANT, LINE, *[CURVE] * (spline.shape[1] - 1)][: 1 + spline.shape[1]]
        deviations += [PREDICATE] * of_group.shape[1] + [PREDICATE_SLOPE] * of_group.shape[1]

        positives = old.positives.sum()
        drawn = float(logit(positives / old.count.sum()) - logit(base_rate))
        offset = np.r_[np.full(first, drawn), np.zeros(len(later.x))]
        counts = (np.r_[old.count, later.count], np.r_[old.positives, later.positives])
        slope = _slope_column(nuisance, first, counts, offset, np.array(deviations))
        bend = spline_columns(x, weights, BEND_KNOTS)
        is_new = (np.arange(len(x)) >= first).astype(np.float64)[:, None]
        error = standard_error(limits)
        if error:
            nuisance, deviations = np.concatenate([nuisance, 1 - is_new], axis=1), [*deviations, error]
        moved = np.concatenate([np.ones((len(x), 1)), slope, bend], axis=1) * is_new
        deviations += [SHIFT, *[SLOPE] * slope.shape[1], *[BEND] * bend.shape[1]]
        rows = GroupedRows(np.concatenate([nuisance, moved], axis=1), offset, *counts)
        return cls(
            rows, np.array(deviations) ** -2.0, first, (nuisance.shape[1], slope.shape[1], bend.shape[1]), error > 0
        )

    def fit(self, shift: bool = False, slope: bool = False, bend: bool = False) -> Fit:
        """Fit the model with the map and with these parts. Raises FitError if the fit does not converge."""
        ends = np.cumsum([self.sizes[0], 1, *self.sizes[1:]])
        parts = zip(ends[:-1], ends[1:], (shift, slope, bend), strict=True)
        used = [np.arange(ends[0]), *(np.arange(start, end) for start, end, wanted in parts if wanted)]
        return fit(self.rows, np.concatenate(used), self.precision)

    @property
    def bends(self) -> Matrix:
        """Return the columns of bend at the rows of the new sample."""
        return self.rows.design[self.first :, len(self.precision) - self.sizes[2] :]


def standard_error(limits: Limits | None) -> float:
    """Return the standard error of logit(base rate) from a 95 % interval of it; 0: the base rate is exact.

    limits  the ends of the interval, in (0, 1); None: the base rate is exact

    It is the width of the interval in log-odds / 3.92, because 95 % of a normal distribution are within 1.96 standard
    deviations of its mean. Raises InputError for ends out of range.
    """
    if limits is None:
        return 0.0
    for end in limits:
        check_base_rate("base_rate", end)
    return float(logit(limits[1]) - logit(limits[0])) / (2 * float(ndtri(0.975)))


@dataclass(frozen=True)
class _Cells:
    """One sample, counted: normal score, predicate group, weight and weight of the positives of each non-empty cell.

    balanced  weights with which positives and negatives have the same total
    """

    x: Floats
    groups: Ints
    count: Floats
    positives: Floats

    @property
    def balanced(self) -> Floats:
        negatives = self.count - self.positives
        weights: Floats = self.positives / self.positives.sum() + negatives / negatives.sum()
        return weights


def _cells(sample: CalibrationSample, new: NewTriples) -> tuple[_Cells, _Cells]:
    """Count the calibration sample, with effective weights, and the new triples."""
    normal = normal_scores(sample.scores, sample.labels, sample.counts)
    if new.predicates is None:
        groups = (np.zeros(len(sample.scores), dtype=np.int64), np.zeros(len(new.scores), dtype=np.int64))
        number = CELLS
    elif sample.predicates is None:
        raise InputError("the new triples have predicates, but the calibration sample has none: give both or neither")
    else:
        groups, number = _groups(sample.predicates, new.predicates), CELLS_BY_PREDICATE

    def count(scores: Scores, labels: Labels, weights: Floats, group: Ints) -> _Cells:
        key = group * number + cells_of(scores, normal, number)
        total: Floats = np.bincount(key, weights).astype(np.float64)
        positives: Floats = np.bincount(key, weights * labels).astype(np.float64)
        used = np.flatnonzero(total)
        centres = ((np.arange(number) + 0.5) / number * 2 - 1) * FURTHEST
        return _Cells(centres[used % number], used // number, total[used], positives[used])

    return (
        # a row that stands for many is one observation here
        count(sample.scores, sample.labels, replace(sample, concentrations=None).effective_weights, groups[0]),
        count(new.scores, new.labels, np.ones(len(new.labels)), groups[1]),
    )


def _groups(old: Ints, new: Ints) -> tuple[Ints, Ints]:
    """Number the predicates from 1, the most frequent new ones first. Predicates beyond MOST_PREDICATES get 0."""
    predicates, counts = np.unique(new, return_counts=True)
    numbers = np.zeros(1 + int(max(old.max(), new.max(initial=0))), dtype=np.int64)
    frequent = predicates[np.argsort(-counts, kind="stable")][:MOST_PREDICATES]
    numbers[frequent] = np.arange(1, len(frequent) + 1)
    return numbers[old], numbers[new]


def _slope_column(
    nuisance: Matrix, first: int, counts: tuple[Floats, Floats], offset: Floats, deviations: Floats
) -> Matrix:
    """Return the log-odds (n, 1) of the map that is fitted on the calibration sample; (n, 0) if the map is flat."""
    old = GroupedRows(nuisance[:first], offset[:first], counts[0][:first], counts[1][:first])
    fitted = fit(old, np.arange(nuisance.shape[1]), deviations**-2.0)
    z: Floats = nuisance @ fitted.values
    return z[:, None] if z.std() > FLAT else np.empty((len(z), 0))
