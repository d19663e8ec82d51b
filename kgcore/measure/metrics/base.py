"""The description of a metric, and the triples that it is computed on: a sample, and tallies of its resamplings.

The bootstrap estimates how much a metric varies from one random sample of triples to another. The registered metrics
are listed in order, by family, and as those that rank calibrators."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import Any, Final, Literal, Self, TypeAlias, TypeVar

import numpy as np

from kgcore.arrays import (
    Floats,
    Ints,
    Labels,
    Probabilities,
    Weights,
    as_probabilities,
    as_truth,
    same_length,
)
from kgcore.calibrate.sample import scaled_weights
from kgcore.registries import METRICS

T = TypeVar("T")
Family: TypeAlias = Literal["headline", "calibration", "discrimination", "sharpness", "uncertainty", "confidence"]
Best: TypeAlias = Literal["lowest", "highest", "neither"]
SMALLEST, LARGEST_SMALL = 1e-12, 5e-4  # figures between them have no digit in four decimals; a smaller one is 0
LAST: Final = 1000
UNIT: Final = (0.0, 1.0)
NOT_NEGATIVE: Final = (0.0, math.inf)


def checked_rows(
    probabilities: Probabilities, labels: Labels, weights: Weights | None
) -> tuple[Probabilities, Labels, Weights]:
    """Return probabilities in [0, 1], labels or confidences in [0, 1], and weights > 0 (None: ones), each (n,).

    Raises InputError for arrays of different lengths and for values out of range.
    """
    n = same_length(probabilities=probabilities, labels=labels)
    return as_probabilities(probabilities, n), as_truth(labels, n), scaled_weights(weights, n)


class _Shared:
    """The base class of objects that cache what is computed from them, so that several metrics can share it."""

    def __init__(self) -> None:
        self._results: dict[Callable[..., Any], Any] = {}

    def once(self, compute: Callable[[Self], T]) -> T:
        """Return compute(self). Later calls with the same function return the cached result."""
        if compute not in self._results:
            self._results[compute] = compute(self)
        result: T = self._results[compute]
        return result


class Sample(_Shared):
    """The triples of one calibrator (n,), grouped by probability once, so that many resamplings are fast.

    probabilities, labels, weights  (n,). A label is 0, 1, or a confidence in between: `soft` says whether one is
    bins      number of bins of the binned calibration errors
    tau       decision threshold: a triple is called true where q > tau
    clusters  (n,) the number of each triple's cluster, from 0, if the triples of a cluster vary together; None: each
              triple varies alone
    most      the largest number of distinct probabilities to keep. If there are more, neighbouring probabilities are
              merged into at most `most` groups with about equal numbers of rows, and each group gets its weighted
              mean. This is much faster, and it hardly changes how a metric varies. None: keep all

    `q` (g,) holds the distinct probabilities, increasing; `place` (n,) the position of each triple's probability in it.

    Raises InputError for values out of range.
    """

    def __init__(
        self,
        probabilities: Probabilities,
        labels: Labels,
        weights: Weights | None = None,
        bins: int = 10,
        tau: float = 0.5,
        clusters: Ints | None = None,
        most: int | None = None,
    ) -> None:
        super().__init__()
        q, y, w = checked_rows(probabilities, labels, weights)
        self.probabilities, self.labels, self.weights = q, y, w
        self.bins, self.tau, self.clusters = bins, tau, clusters
        distinct, place, count = np.unique(q, return_inverse=True, return_counts=True)
        if most is not None and len(distinct) > most:
            group = (np.cumsum(count) - 1) * most // len(q)
            place = np.unique(group, return_inverse=True)[1][place]
            distinct = np.bincount(place, w * q) / np.bincount(place, w)
        self.q, self.place = distinct, place
        self.soft = bool(((y > 0) & (y < 1)).any())
        shares = (np.flatnonzero(y > 0), y), (np.flatnonzero(y < 1), 1 - y)
        self._sides = [(rows, place[rows], w[rows] * part[rows], w[rows] ** 2 * part[rows]) for rows, part in shares]

    def tally(self, counts: Floats | None = None) -> "Tally":
        """Return the tally in which row i occurs counts[i] times; counts (n,). None: every row occurs once."""
        sums: list[Floats] = []
        squares: list[Floats] = []
        for rows, place, w, squared in self._sides:
            times = np.ones(len(rows)) if counts is None else counts[rows]
            sums.append(np.bincount(place, times * w, len(self.q)).astype(np.float64))
            squares.append(np.bincount(place, times * squared, len(self.q)).astype(np.float64))
        return Tally(self, (sums[0], sums[1]), (squares[0], squares[1]), self._errors(counts) if self.soft else None)

    def _errors(self, counts: Floats | None) -> "Errors":
        w, apart = self.weights, np.abs(self.probabilities - self.labels)
        times = np.ones(len(w)) if counts is None else counts
        sums = (
            np.bincount(self.place, times * values, len(self.q))
            for values in (w * apart**2, w * apart, (w * apart) ** 2)
        )
        return Errors(*(total.astype(np.float64) for total in sums))

    def merged(self) -> "tuple[Sample, Ints]":
        """Merge the rows of each distinct probability and label, 0 or 1, into one row, with their mean weight.

        Return the m merged rows, and how many rows each of them stands for (m,). A bootstrap of many rows draws these
        numbers from a multinomial distribution, which takes far less time. It differs from a bootstrap of the rows only
        if rows of one label and one probability have different weights.
        """
        parts = []
        for label, (_, place, w, _) in zip((1.0, 0.0), self._sides, strict=True):
            number = np.bincount(place, minlength=len(self.q))
            used = np.flatnonzero(number)
            mean = np.bincount(place, w, len(self.q))[used] / number[used]
            parts.append((self.q[used], np.full(len(used), label), mean, number[used]))
        q, y, weights, numbers = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        return Sample(q, y, weights, self.bins, self.tau), numbers


@dataclass(frozen=True)
class Errors:
    """Sums over the triples with each probability q, for confidences c; arrays (g,).

    squared   sum of w (q - c)^2
    absolute  sum of w |q - c|
    squares   sum of w^2 (q - c)^2
    """

    squared: Floats
    absolute: Floats
    squares: Floats


class Tally(_Shared):
    """A resampling of a sample, grouped by probability: the argument of every metric.

    A triple with a confidence c, between 0 and 1, counts as c of a true triple and 1 - c of a false one.

    sample                              the sample that the triples are drawn from
    q                                   its distinct probabilities (g,), increasing
    positive, negative                  (g,) total weight of the true and of the false triples with this probability
    positive_squares, negative_squares  (g,) sums of the squared weights of these triples
    errors                              sums of the differences between probability and confidence; None if every label
                                        is 0 or 1

    Equal probabilities share one entry, so a metric of a tally does not depend on the order of ties. After resampling,
    some entries can have no weight. Such entries do not change any metric.
    """

    def __init__(
        self, sample: Sample, weights: tuple[Floats, Floats], squares: tuple[Floats, Floats], errors: Errors | None
    ) -> None:
        super().__init__()
        self.sample, self.q, self.errors = sample, sample.q, errors
        self.positive, self.negative = weights
        self.positive_squares, self.negative_squares = squares

    @cached_property
    def weight(self) -> Floats:
        """The total weight of the triples with each probability (g,)."""
        return self.positive + self.negative

    @cached_property
    def residual(self) -> Floats:
        """The sum of w_i (y_i - q_i) over the triples with each probability (g,)."""
        return self.positive * (1 - self.q) - self.negative * self.q

    def mean(self, if_true: Floats, if_false: Floats) -> float:
        """Return the weighted mean over triples of a value that depends only on the probability and the label.

        if_true, if_false  (g,) the value of a true and of a false triple with each probability
        """
        total = self.positive @ if_true + self.negative @ if_false
        return float(total / self.weight.sum())


@dataclass(frozen=True)
class Metric:
    """A metric that measures the probabilities of one calibrator.

    title      the name that tables show, such as "Brier score"
    family     the group that it is shown with: headline (the first table), calibration, discrimination, sharpness,
               uncertainty or confidence
    best       which values are better: lowest, highest, or neither
    figure     function that computes the value on a tally; NaN where the metric is not defined. It calls t.once(f) for
               a result of the tally that other metrics also use, and t.sample.once(f) for a result that resampling
               does not change
    range      lowest and highest possible value; intervals are cut off there
    interval   whether a bootstrap interval of the metric covers its true value, also for calibrated probabilities. If
               not, no interval is computed: docs/decisions/0006-metrics.md
    leading    whether it represents its family in views that have room for only a few metrics
    with_ends  whether MLflow shows the ends of its interval next to the value
    order      position in artifacts, in increasing order; metrics with equal `order` are sorted by name
    column     position in the table of its family, in increasing order; metrics with equal `column` are sorted by name
    """

    title: str
    family: Family
    best: Best
    figure: Callable[[Tally], float]
    range: tuple[float, float] = UNIT
    interval: bool = True
    leading: bool = False
    with_ends: bool = False
    order: int = LAST
    column: int = LAST


def every_metric() -> dict[str, Metric]:
    """Return every registered metric by name, in the order in which artifacts list them."""
    known = [(name, METRICS.get(name)) for name in METRICS.names()]
    return dict(sorted(known, key=lambda pair: (pair[1].order, pair[0])))


def metric_names(*families: Family) -> tuple[str, ...]:
    """Return the names of the metrics, one family after the other, each family in the order of its columns."""
    metrics = every_metric()
    columns = [
        (families.index(metric.family), metric.column, name)
        for name, metric in metrics.items()
        if metric.family in families
    ]
    return tuple(name for _, _, name in sorted(columns))


def ranked() -> tuple[str, ...]:
    """Return the names of the metrics that can rank calibrators, those of the headline family first.

    A metric can rank calibrators if lower values, or higher values, are always better. Sharpness, for example, cannot.
    """
    metrics = every_metric()
    names = metric_names("headline", "calibration", "discrimination", "sharpness", "uncertainty")
    return tuple(name for name in names if metrics[name].best != "neither")


def highest_best() -> frozenset[str]:
    """Return the names of the metrics for which higher values are better."""
    return frozenset(name for name, metric in every_metric().items() if metric.best == "highest")


@dataclass(frozen=True)
class Estimate:
    """A value with its interval.

    value      the value measured on the sample
    low, high  value -/+ z * standard error, where z is the normal quantile of the level
    """

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{decimals(self.value)} [{decimals(self.low)}, {decimals(self.high)}]"


def decimals(value: float) -> str:
    """Write a figure with four decimals, or with two significant digits if these would be 0 and it is not."""
    return f"{value:.2g}" if SMALLEST < abs(value) < LARGEST_SMALL else f"{value:.4f}"


def percent(share: float) -> str:
    """Return a share in [0, 1] as a percentage: `72 %`, but `0.5 %`, `99.5 %` and `0.02 %` near the ends."""
    value = 100 * share
    digits = 0 if 1 <= value <= 99 or value in (0, 100) else 1 if 0.1 <= round(value, 1) <= 99.9 else 2
    return f"{value:.{digits}f} %"


def bootstrap(
    figure: Callable[[Ints], float],
    n: int,
    rng: np.random.Generator,
    replicates: int = 1000,
) -> Estimate:
    """Return the value of a metric on a sample of n rows, with a two-sided 95 % interval.

    figure      function that computes the metric on some rows, given their positions (m,) in 0..n-1. For a paired
                comparison of two sets of predictions, it computes the difference of their metrics on the same rows.
    replicates  number of resamplings; each draws n rows with replacement

    The standard error is the standard deviation over replicates (Efron & Tibshirani 1993, chapter 6). The interval is a
    normal interval, because many comparisons need a high level. At such a level the replicates are too few for stable
    percentiles, but the normal interval is stable.
    Rows are treated as independent. If rows are corruptions of the same positive, the interval is somewhat too narrow.
    """
    drawn = [figure(rng.integers(0, n, n)) for _ in range(replicates)]
    return estimate(figure(np.arange(n)), drawn)


def estimate(value: float, drawn: Sequence[float], level: float = 0.95) -> Estimate:
    """Return a value with its normal interval at `level`, given the values `drawn` on the replicates.

    Replicates on which the metric is not defined (NaN) are left out. An example is a share of an empty set. If fewer
    than two replicates are left, or the value itself is NaN, both ends of the interval are NaN.
    """
    defined = np.array(drawn)[np.isfinite(drawn)]
    error = float(np.std(defined, ddof=1)) if len(defined) > 1 else float("nan")
    z = NormalDist().inv_cdf((1 + level) / 2)
    return Estimate(value, value - z * error, value + z * error)


def resampled(n: int, rng: np.random.Generator, replicates: int, clusters: Ints | None = None) -> Iterator[Floats]:
    """Yield, for each replicate, how many times each of n rows is drawn (n,), with replacement.

    clusters  (n,) the number of each row's cluster, from 0. Rows of one cluster, such as a positive and its
              corruptions, are drawn together. If there are k clusters, a replicate draws k clusters (Davison & Hinkley
              1997, section 3.8). None: each row is a cluster of its own.
    """
    size = n if clusters is None else int(clusters.max()) + 1
    for _ in range(replicates):
        times = np.bincount(rng.integers(0, size, size), minlength=size).astype(np.float64)
        yield times if clusters is None else times[clusters]
