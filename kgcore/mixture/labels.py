"""A base rate from labels alone, and the number of labels that a base rate needs."""

from dataclasses import dataclass

import numpy as np

from kgcore.arrays import Ints, Labels, as_labels
from kgcore.calibration.support import CONFIDENCE, exact_limits
from kgcore.errors import FitError, InputError

MOST_LABELS = 10_000_000
MOST_ODDS = 4.0  # an interval whose ends differ by a larger factor in odds does not determine a base rate


@dataclass(frozen=True)
class Rate:
    """A share and its confidence interval, each in [0, 1]."""

    value: float
    low: float
    high: float

    @property
    def width(self) -> float:
        """Return high - low."""
        return self.high - self.low

    def is_narrow(self, width: float) -> bool:
        """Return whether the interval is at most `width` wide, and its ends differ by at most MOST_ODDS in odds.

        The second condition counts at low base rates: 0.001 to 0.05 is narrow, but says little.
        """
        return is_narrow(self.low, self.high, width)


def is_narrow(low: float, high: float, width: float) -> bool:
    """Return whether high - low <= width, and the odds of high are at most MOST_ODDS times those of low."""
    return high - low <= width and high * (1 - low) <= MOST_ODDS * low * (1 - high)


def labelled_rate(labels: Labels) -> Rate:
    """Estimate the base rate of candidates from the labels (n,) of some that were drawn at random.

    The interval is the exact one of Clopper & Pearson (Biometrika 26, 1934): it holds the base rate with at least the
    probability CONFIDENCE. Raises FitError without a label, InputError for labels other than 0 and 1.
    """
    checked = as_labels(labels)
    if not len(checked):
        raise FitError("there are no labels: a base rate needs at least one, of a candidate drawn at random")
    true = float(checked.sum())
    low, high = exact_limits(true, float(len(checked)))
    return Rate(true / len(checked), low, high)


def labelled_rates(labels: Labels, predicates: Ints) -> dict[int, Rate]:
    """Return predicate -> base rate, from the labels (n,) and predicates (n,) of random candidates, as above."""
    return {predicate: labelled_rate(labels[predicates == predicate]) for predicate in np.unique(predicates).tolist()}


def labels_needed(rate: Rate, width: float, confidence: float = CONFIDENCE) -> int:
    """Return the least number of labels whose exact interval is narrow enough: see `is_narrow`.

    rate   what is known of the base rate. Of the rates in its interval, the one closest to 1/2 needs most labels for
           the width. The estimate itself, but at least a twentieth of the upper limit, counts for the odds
    width  in (0, 1)

    The interval is that of the expected number of true candidates. The result is at most MOST_LABELS.

    Raises InputError if `width` is out of range or too small.
    """
    if not 0 < width < 1:
        raise InputError(f"the width of the interval is {width:g}: it must be above 0 and below 1")
    hardest = float(np.clip(0.5, rate.low, rate.high))
    likely = float(np.clip(rate.value, rate.high / 20, 1 - (1 - rate.low) / 20))

    def too_wide(labels: int) -> bool:
        low, high = exact_limits(hardest * labels, labels, confidence)
        return high - low > width

    def wide(labels: int) -> bool:
        low, high = exact_limits(likely * labels, labels, confidence)
        return too_wide(labels) or not (is_narrow(low, high, 1.0) or labels == MOST_LABELS)

    if too_wide(MOST_LABELS):
        raise InputError(f"an interval of width {width:g} needs more than {MOST_LABELS:,} labels: ask for a wider one")
    few, enough = 0, 1
    while wide(enough):
        few, enough = enough, min(2 * enough, MOST_LABELS)
    while enough - few > 1:
        middle = (few + enough) // 2
        few, enough = (middle, enough) if wide(middle) else (few, middle)
    return enough
