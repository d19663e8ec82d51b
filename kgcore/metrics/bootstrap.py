"""The bootstrap: it estimates how much a metric varies from one random sample of triples to another."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from kgcore.arrays import Floats, Ints


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
        return f"{self.value:.4f} [{self.low:.4f}, {self.high:.4f}]"


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
    z = float(ndtri((1 + level) / 2))
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
