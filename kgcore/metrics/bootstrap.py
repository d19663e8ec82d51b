"""The bootstrap: the variation of a metric from one sample of triples to another."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from kgcore.arrays import Floats, Ints


@dataclass(frozen=True)
class Estimate:
    """A value with its interval.

    value      measured on the sample
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
    level: float = 0.95,
    replicates: int = 1000,
) -> Estimate:
    """The value of a metric on a sample of n rows, with a two-sided interval at `level`.

    figure  the metric of some rows, given their positions (m,) in 0..n-1. It can be the difference of two predictions
            on the same rows, which makes the comparison paired.

    A replicate draws n rows with replacement. The standard error is the standard deviation over replicates (Efron &
    Tibshirani 1993, chapter 6). The interval is the normal one. Its ends are stable at the high levels that many
    comparisons need; there are too few replicates for percentiles at these levels.
    Rows are treated as independent; if they are corruptions that share a positive, the interval is somewhat too narrow.
    """
    drawn = [figure(rng.integers(0, n, n)) for _ in range(replicates)]
    return estimate(figure(np.arange(n)), drawn, level)


def estimate(value: float, drawn: Sequence[float], level: float = 0.95) -> Estimate:
    """The interval at `level` about a value, given the values on the replicates.

    Replicates on which the metric is not defined (NaN), such as a share of an empty set, are left out. If fewer than
    two are left, or the value itself is NaN, the ends are NaN.
    """
    defined = np.array(drawn)[np.isfinite(drawn)]
    error = float(np.std(defined, ddof=1)) if len(defined) > 1 else float("nan")
    z = float(ndtri((1 + level) / 2))
    return Estimate(value, value - z * error, value + z * error)


def resampled(n: int, rng: np.random.Generator, replicates: int, clusters: Ints | None = None) -> Iterator[Floats]:
    """For each replicate, how many times each of n rows is drawn (n,), with replacement.

    clusters  (n,) numbers from 0. Rows with the same number, such as a positive and its corruptions, are drawn
              together, and a replicate draws as many clusters as there are (Davison & Hinkley 1997, section 3.8).
              None: each row is a cluster.
    """
    size = n if clusters is None else int(clusters.max()) + 1
    for _ in range(replicates):
        times = np.bincount(rng.integers(0, size, size), minlength=size).astype(np.float64)
        yield times if clusters is None else times[clusters]
