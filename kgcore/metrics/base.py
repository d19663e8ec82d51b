"""The contract of a metric: its description, and the sample that evaluation passes to it."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, Self, TypeAlias, TypeVar

from kgcore.arrays import Floats
from kgcore.metrics.tally import SortedRows

T = TypeVar("T")
Family: TypeAlias = Literal["headline", "calibration", "discrimination", "sharpness", "uncertainty"]
Best: TypeAlias = Literal["lowest", "highest", "neither"]
LAST: Final = 1000
UNIT: Final = (0.0, 1.0)
NOT_NEGATIVE: Final = (0.0, math.inf)


class _Shared:
    """A cache of results computed from an object, so that metrics share computations."""

    def __init__(self) -> None:
        self._results: dict[Callable[..., Any], Any] = {}

    def once(self, compute: Callable[[Self], T]) -> T:
        """Return compute(self). Only the first call with `compute` computes it; later calls return the same result."""
        if compute not in self._results:
            self._results[compute] = compute(self)
        result: T = self._results[compute]
        return result


class Sample(_Shared):
    """The judged triples of one calibrator, and the settings: the inputs that resampling does not change.

    rows  the triples' probabilities, labels and weights (n,); rows.q (g,) are the distinct probabilities
    bins  number of bins of the binned calibration errors
    tau   decision threshold: a triple is called true where q > tau
    """

    def __init__(self, rows: SortedRows, bins: int, tau: float) -> None:
        super().__init__()
        self.rows, self.bins, self.tau = rows, bins, tau

    def draw(self, counts: Floats | None = None) -> "Draw":
        """The sample in which row i occurs counts[i] times; counts (n,), None: every row once."""
        return Draw(self, counts)


class Draw(_Shared):
    """A resampling of a sample: the argument of every metric.

    sample  the sample that is resampled
    tally   the drawn triples by distinct probability; tally.q is sample.rows.q
    """

    def __init__(self, sample: Sample, counts: Floats | None = None) -> None:
        super().__init__()
        self.sample, self.tally = sample, sample.rows.tally(counts)


@dataclass(frozen=True)
class Metric:
    """A number that judges the probabilities of one calibrator.

    title      name for people, such as "Brier score"
    family     where it is shown: headline (the first table), calibration, discrimination, sharpness, uncertainty
    best       which value is better: the lowest, the highest, or neither
    figure     the value on a draw; NaN where it is not defined. It calls draw.once(f) for a result that metrics share
               on a draw, and draw.sample.once(f) for a result that resampling does not change
    exact      the value on all rows of a sample, if it is computed from rows; None: `figure` of the draw of all rows
    range      lowest and highest possible value; intervals are cut off there
    heading    heading of its column on the report's page, if it differs from the title
    leading    whether it represents its family in views with room for few metrics only
    with_ends  whether MLflow shows the ends of its interval beside the value
    order      position in artifacts; new metrics follow the older ones, in the order of their names
    column     position among the columns of its family's table; new metrics follow in the same way
    """

    title: str
    family: Family
    best: Best
    figure: Callable[[Draw], float]
    exact: Callable[[Sample], float] | None = None
    range: tuple[float, float] = UNIT
    heading: str = ""
    leading: bool = False
    with_ends: bool = False
    order: int = LAST
    column: int = LAST

    def value(self, draw: Draw) -> float:
        """The value on a sample, given the draw of all its rows."""
        return draw.sample.once(self.exact) if self.exact else draw.once(self.figure)
