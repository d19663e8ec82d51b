"""The description of a metric, and the sample that an evaluation computes it on."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, Self, TypeAlias, TypeVar

from kgcore.arrays import Floats, Ints
from kgcore.metrics.tally import SortedRows

T = TypeVar("T")
Family: TypeAlias = Literal["headline", "calibration", "discrimination", "sharpness", "uncertainty", "confidence"]
Best: TypeAlias = Literal["lowest", "highest", "neither"]
LAST: Final = 1000
UNIT: Final = (0.0, 1.0)
NOT_NEGATIVE: Final = (0.0, math.inf)


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
    """The inputs of a metric that resampling does not change: the triples of one calibrator, and the settings.

    rows  the probabilities, labels and weights (n,) of the triples; rows.q (g,) holds the distinct probabilities
    bins  number of bins of the binned calibration errors
    tau   decision threshold: a triple is called true where q > tau
    clusters  (n,) the number of each triple's cluster, from 0, if the triples of a cluster vary together; None: each
              triple varies alone
    """

    def __init__(self, rows: SortedRows, bins: int, tau: float, clusters: Ints | None = None) -> None:
        super().__init__()
        self.rows, self.bins, self.tau, self.clusters = rows, bins, tau, clusters

    def draw(self, counts: Floats | None = None) -> "Draw":
        """Return the resampling in which row i occurs counts[i] times; counts (n,). None: every row occurs once."""
        return Draw(self, counts)


class Draw(_Shared):
    """A resampling of a sample: the argument of every metric.

    sample  the sample that the rows are drawn from
    tally   the drawn triples, grouped by probability; tally.q is sample.rows.q
    """

    def __init__(self, sample: Sample, counts: Floats | None = None) -> None:
        super().__init__()
        self.sample, self.tally = sample, sample.rows.tally(counts)


@dataclass(frozen=True)
class Metric:
    """A metric that measures the probabilities of one calibrator.

    title      the name that tables show, such as "Brier score"
    family     the group that it is shown with: headline (the first table), calibration, discrimination, sharpness,
               uncertainty or confidence
    best       which values are better: lowest, highest, or neither
    figure     function that computes the value on a draw; NaN where the metric is not defined. It calls draw.once(f)
               for a result of the draw that other metrics also use, and draw.sample.once(f) for a result that
               resampling does not change
    exact      function that computes the value from the single rows of a sample. None: the value is `figure` of the
               draw in which every row occurs once
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
    figure: Callable[[Draw], float]
    exact: Callable[[Sample], float] | None = None
    range: tuple[float, float] = UNIT
    interval: bool = True
    leading: bool = False
    with_ends: bool = False
    order: int = LAST
    column: int = LAST

    def value(self, draw: Draw) -> float:
        """Return the value on a sample. `draw` is the draw in which every row of the sample occurs once."""
        return draw.sample.once(self.exact) if self.exact else draw.once(self.figure)
