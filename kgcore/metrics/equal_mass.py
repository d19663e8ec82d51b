"""Calibration errors over bins of equal mass: each holds about the same share of the weight."""

import numpy as np

from kgcore.arrays import Floats, Ints, Labels, Probabilities, Weights
from kgcore.metrics.tally import Tally, tally


def equal_mass_bins(t: Tally, bins: int) -> Ints:
    """The entries of the tally at which a bin begins (m,), m <= bins, the first 0.

    An entry is in bin floor(bins * c), c being the share of the weight below its middle. Equal probabilities are never
    split, so that there are fewer bins where many are equal: of a constant one.
    """
    weight = t.weight
    middle = (np.cumsum(weight) - weight / 2) / weight.sum()
    return bin_starts(np.floor(bins * middle + 1e-9).astype(np.int64).clip(0, bins - 1))


def bin_starts(place: Ints) -> Ints:
    """The positions (m,) at which the bins begin, from the number of the bin of each entry (g,), never falling."""
    return np.flatnonzero(np.diff(place, prepend=-1))


def ece_equal_mass(
    probabilities: Probabilities, labels: Labels, weights: Weights | None = None, bins: int = 10
) -> float:
    """Expected calibration error over weighted quantile bins, in [0, 1]: sum_b |sum_{i in b} w_i (y_i - q_i)| / sum w.

    Nguyen & O'Connor, EMNLP 2015 (as "adaptive" binning). Raises InputError for values out of range.
    """
    t = tally(probabilities, labels, weights)
    return binned_ece_of(t, equal_mass_bins(t, bins))


def binned_ece_of(t: Tally, starts: Ints) -> float:
    """Expected calibration error of a tally over the bins that begin at these entries (m,)."""
    return float(np.abs(np.add.reduceat(t.residual, starts)).sum() / t.weight.sum())


def debiased_rmsce(
    probabilities: Probabilities, labels: Labels, weights: Weights | None = None, bins: int = 10
) -> float:
    """Root mean square calibration error, without what sampling alone adds to it, in [0, 1]:
    sqrt(max(0, sum_b (w_b / w) (r_b^2 - v_b))).

    r_b  the bin's weighted mean of r_i = y_i - q_i, over weighted quantile bins
    v_b  estimated variance of r_b: sum w_i^2 (r_i - r_b)^2 / (sum w_i)^2 * m / (m - 1), m = (sum w)^2 / sum w^2 being
         the bin's effective count; a bin of m = 1 tells nothing and counts as r_b^2 - v_b = 0

    Kumar, Liang & Ma, NeurIPS 2019, section 4.2, whose estimate this is where probabilities are constant in a bin and
    weights are equal: there v_b = s_b (1 - s_b) / (m - 1) with the share s_b of true triples. Under perfect calibration
    the mean of the squares is near 0 however many bins there are, and half of the time this is exactly 0.
    Weights say what a triple stands for, not how often it was seen: two equal rows tell more than one of double weight.
    Where they are scaled to a base rate, as of corruptions, the sample has one freedom less, and v_b is a little large.
    Raises InputError for values out of range.
    """
    t = tally(probabilities, labels, weights)
    return debiased_rmsce_of(t, equal_mass_bins(t, bins))


def debiased_rmsce_of(t: Tally, starts: Ints) -> float:
    """`debiased_rmsce` of a tally, over the bins that begin at these entries (m,)."""
    return float(np.sqrt(max(0.0, debiased_square(t, starts))))


def debiased_square(t: Tally, starts: Ints) -> float:
    """The debiased mean square calibration error, which may be below 0; `debiased_rmsce` is its root."""

    def sums(values: Floats) -> Floats:
        return np.add.reduceat(values, starts)[used]

    used = np.add.reduceat(t.weight, starts) > 0
    if_true, if_false, weight = 1 - t.q, -t.q, sums(t.weight)
    mean = sums(t.residual) / weight
    squares = sums(t.positive_squares + t.negative_squares)
    first = sums(t.positive_squares * if_true + t.negative_squares * if_false)
    second = sums(t.positive_squares * if_true**2 + t.negative_squares * if_false**2)
    count = weight**2 / squares
    several = count > 1 + 1e-9
    spread = (second - 2 * mean * first + mean**2 * squares).clip(0) / weight**2
    variance = np.where(several, spread * count / np.where(several, count - 1, 1), mean**2)
    return float(weight @ (mean**2 - variance) / weight.sum())
