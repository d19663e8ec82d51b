"""The calibration sample and the new triples as one table of counts, and the models that are fitted to it."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.special import logit, ndtri

from kgcore.arrays import Floats, Ints, Labels, Scores, as_labels, same_length
from kgcore.calibration.balance import check_base_rate
from kgcore.calibration.sample import CalibrationSample
from kgcore.errors import InputError
from kgcore.monitoring.penalised import Fit, Rows, fit
from kgcore.monitoring.score_basis import NormalScores, cell_centres, spline_columns
from kgcore.newton import Matrix

CELLS, CELLS_BY_PREDICATE = 512, 64
KNOTS, BEND_KNOTS = 7, 5
MOST_PREDICATES = 100  # predicates with effects of their own; the others share the map of all
# Standard deviations of the normal priors. The wide ones only keep the fit finite where the data say nothing.
CONSTANT, LINE, CURVE, PREDICATE, PREDICATE_SLOPE = 30.0, 10.0, 3.0, 1.0, 0.5
SHIFT, SLOPE, BEND = 10.0, 2.0, 5.0
FLAT = 1e-6  # a map with a smaller spread of its log-odds has no slope that could change


Limits = tuple[float, float]  # the ends of a 95 % interval of a base rate


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

    rows: Rows
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
        own = (groups[:, None] == np.arange(1, groups.max(initial=0) + 1)).astype(np.float64)
        nuisance = np.concatenate([np.ones((len(x), 1)), spline, own, own * line], axis=1)
        deviations = [CONSTANT, LINE, *[CURVE] * (spline.shape[1] - 1)][: 1 + spline.shape[1]]
        deviations += [PREDICATE] * own.shape[1] + [PREDICATE_SLOPE] * own.shape[1]

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
        rows = Rows(np.concatenate([nuisance, moved], axis=1), offset, *counts)
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
    normal = NormalScores.fit(sample.scores, sample.labels, sample.counts)
    if new.predicates is None:
        groups = (np.zeros(len(sample.scores), dtype=np.int64), np.zeros(len(new.scores), dtype=np.int64))
        number = CELLS
    elif sample.predicates is None:
        raise InputError("the new triples have predicates, but the calibration sample has none: give both or neither")
    else:
        groups, number = _groups(sample.predicates, new.predicates), CELLS_BY_PREDICATE

    def count(scores: Scores, labels: Labels, weights: Floats, group: Ints) -> _Cells:
        key = group * number + normal.cells(scores, number)
        total: Floats = np.bincount(key, weights).astype(np.float64)
        positives: Floats = np.bincount(key, weights * labels).astype(np.float64)
        used = np.flatnonzero(total)
        return _Cells(cell_centres(number)[used % number], used // number, total[used], positives[used])

    return (
        # a row that stands for many is one observation here
        count(sample.scores, sample.labels, replace(sample, concentrations=None).effective_weights, groups[0]),
        count(new.scores, new.labels, np.ones(len(new.labels)), groups[1]),
    )


def _groups(old: Ints, new: Ints) -> tuple[Ints, Ints]:
    """Number the predicates from 1, the most frequent new ones first. Predicates beyond MOST_PREDICATES get 0."""
    found, counts = np.unique(new, return_counts=True)
    numbers = np.zeros(1 + int(max(old.max(), new.max(initial=0))), dtype=np.int64)
    frequent = found[np.argsort(-counts, kind="stable")][:MOST_PREDICATES]
    numbers[frequent] = np.arange(1, len(frequent) + 1)
    return numbers[old], numbers[new]


def _slope_column(
    nuisance: Matrix, first: int, counts: tuple[Floats, Floats], offset: Floats, deviations: Floats
) -> Matrix:
    """Return the log-odds (n, 1) of the map that is fitted on the calibration sample; (n, 0) if the map is flat."""
    old = Rows(nuisance[:first], offset[:first], counts[0][:first], counts[1][:first])
    fitted = fit(old, np.arange(nuisance.shape[1]), deviations**-2.0)
    z: Floats = nuisance @ fitted.values
    return z[:, None] if z.std() > FLAT else np.empty((len(z), 0))
