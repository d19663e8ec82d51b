"""A probability with its interval, as numbers and as text."""

from dataclasses import dataclass

import numpy as np

from kgcore.arrays import Floats


@dataclass(frozen=True, kw_only=True)
class ProbabilityInterval:
    """A probability in [0, 1] and the ends of its 95 % confidence interval. None: there is no such number."""

    probability: float | None
    low: float | None
    high: float | None

    @property
    def text(self) -> str:
        """The probability with four decimals, or with two digits if it is small; '' if there is none."""
        return "" if self.probability is None else _digits(self.probability)

    @property
    def interval_text(self) -> str:
        """The interval, such as `0.7600 to 0.8512`; '' if there is none."""
        return "" if self.low is None or self.high is None else f"{_digits(self.low)} to {_digits(self.high)}"


@dataclass(frozen=True, kw_only=True)
class Shifted(ProbabilityInterval):
    """The probability at a base rate in (0, 1)."""

    base_rate: float


def _digits(share: float) -> str:
    return f"{share:.4f}" if share >= 0.001 or share == 0 else f"{share:.2g}"


def numbers(values: Floats) -> dict[str, float | None]:
    """Return probability, lower and upper end (3,) as the fields of a `ProbabilityInterval`: None for NaN."""
    plain = [None if np.isnan(value) else float(value) for value in values]
    return dict(zip(("probability", "low", "high"), plain, strict=True))
