"""Shares with their intervals: the base rate alpha of a population, and the hidden share of its corruptions."""

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Self

from pydantic import Field

from kgcore.errors import InputError

ASSUMED, STATED, ESTIMATED = "assumed", "stated", "estimated"  # where a base rate comes from
# types of stored shares, which are read as they are: text and other numbers are refused
Share = Annotated[float, Field(strict=True, ge=0, le=1)]
OpenShare = Annotated[float, Field(strict=True, ge=sys.float_info.min, lt=1)]  # smaller ones have no odds
SMALLEST = 1e-12  # of a stated share
INTERVAL_FORM = "above 0 and below 1, or LOW:HIGH, such as 0.01:0.05"


@dataclass(frozen=True)
class BaseRate:
    """The base rate alpha of a population: the share of true triples among its candidates, in [0, 1].

    low, high  ends of its interval, with low <= value <= high; None: it has no interval
    origin     ASSUMED, STATED or ESTIMATED
    """

    value: Share
    low: Share | None = None
    high: Share | None = None
    origin: Annotated[str, Field(pattern=f"^({ASSUMED}|{STATED}|{ESTIMATED})$")] = STATED

    @classmethod
    def read(cls, text: float | str | None) -> Self | None:
        """Read a stated base rate, or an interval LOW:HIGH of it, whose value is its middle in log-odds.

        None and '' are no base rate. Raises InputError for another text, and for a number outside (0, 1).
        """
        if text is None or text == "":
            return None
        try:
            ends = [float(end) for end in str(text).split(":")]
        except ValueError:
            ends = []
        if len(ends) == 1 and not 0 < ends[0] < 1:
            raise InputError(f"base_rate is {ends[0]:g}: it must be {INTERVAL_FORM}")
        if len(ends) not in (1, 2) or not all(0 < end < 1 for end in ends) or ends != sorted(ends):
            raise InputError(f"base_rate is {text!r}: it must be a number {INTERVAL_FORM}")
        check_size("base_rate", ends)
        return cls(ends[0]) if len(ends) == 1 else cls(middle(*ends), ends[0], ends[1])

    @classmethod
    def of_sample(cls, true: int, size: int) -> Self:
        """Estimate it from a random sample of the candidates: (true + 1/2) / (size + 1), with a 95 % interval.

        They are the mean and the quantiles of the distribution Beta(true + 1/2, size - true + 1/2), never 0 or 1:
        Jeffreys' interval (Brown, Cai & DasGupta, Statistical Science 16, 2001).
        """
        from scipy.special import betaincinv

        ends = betaincinv(true + 0.5, size - true + 0.5, [0.025, 0.975])
        return cls((true + 0.5) / (size + 1), float(ends[0]), float(ends[1]), ESTIMATED)

    @property
    def limits(self) -> tuple[float, float] | None:
        """The ends of the interval; None: it has none."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    @property
    def figures(self) -> str:
        """The numbers: `0.5`, or `0.0224 [0.01, 0.05]` with the ends of the interval."""
        return f"{self.value:g}" if self.low is None else f"{self.value:.3g} [{self.low:.3g}, {self.high:.3g}]"

    def __str__(self) -> str:
        """Return the numbers and the origin: `0.5, assumed` or `0.0224 [0.01, 0.05], stated`.

        An estimate without an interval is rounded to three digits, of the value or, above 0.5, of 1 - value.
        """
        if self.origin != ESTIMATED or self.low is not None:
            return f"{self.figures}, {self.origin}"
        digits = 3 - math.ceil(math.log10(min(self.value, 1 - self.value))) if 0 < self.value < 1 else 3
        return f"{round(self.value, digits):g}, {self.origin}"


def check_size(name: str, shares: Sequence[float]) -> None:
    """Raise InputError for a stated share that is nearer to 0 or 1 than SMALLEST: rounding would take its place."""
    if wrong := [share for share in shares if not SMALLEST <= share <= 1 - SMALLEST]:
        raise InputError(f"{name} is {wrong[0]!r}: it must be above 0 and below 1 by {SMALLEST:g} or more")


def middle(low: float, high: float) -> float:
    """Return the base rate in the middle of two others, each in (0, 1), in log-odds."""
    return 1 / (1 + math.sqrt((1 / low - 1) * (1 / high - 1)))


@dataclass(frozen=True)
class HiddenShare:
    """The share of the corruptions, by weight, that are estimated to be true, and its 95 % interval; all in [0, 1).

    A corruption is true if it is a fact of test, or a fact that no split has.
    """

    share: Share
    low: Share
    high: Share

    def __str__(self) -> str:
        """Return `34 % [30, 38]`."""
        return "{:.2g} % [{:.2g}, {:.2g}]".format(*(100 * end for end in (self.share, self.low, self.high)))

    def sentence(self) -> str:
        """Return the sentence that reports and model cards show."""
        return (
            f"{self} of the corruptions that the synthetic calibrators are fitted to are estimated to be true: hidden "
            "facts, which count as much less of a negative."
        )

    def figures(self) -> dict[str, float]:
        """Return the three numbers under keys that begin with `hidden_`."""
        return {f"hidden_{name}": value for name, value in asdict(self).items()}

    @classmethod
    def of_figures(cls, figures: Mapping[str, float]) -> Self | None:
        """Read the output of `figures` among others; None if it is not there."""
        if "hidden_share" not in figures:
            return None
        return cls(*(figures[f"hidden_{name}"] for name in ("share", "low", "high")))
