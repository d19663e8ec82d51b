"""Calibration errors over bins of equal mass: each bin has about the same share of the weight."""

import numpy as np

from kgcore.arrays import Floats, Ints, Labels, Probabilities, Weights
from kgcore.metrics.base import Draw, Metric, Sample
from kgcore.metrics.bins import binned_ece_of, equal_mass_bins
from kgcore.metrics.tally import Tally, tally
from kgcore.registries import METRICS


def ece_equal_mass(
    probabilities: Probabilities, labels: Labels, weights: Weights | None = None, bins: int = 10
) -> float:
    """Expected calibration error over weighted quantile bins, in [0, 1]: sum_b |sum_{i in b} w_i (y_i - q_i)| / sum w.

    Nguyen & O'Connor, EMNLP 2015 (as "adaptive" binning). Raises InputError for values out of range.
    """
    t = tally(probabilities, labels, weights)
    return binned_ece_of(t, equal_mass_bins(t, bins))


def debiased_rmsce(
    probabilities: Probabilities, labels: Labels, weights: Weights | None = None, bins: int = 10
) -> float:
    """Root mean square calibration error, corrected for sampling error, in [0, 1]:
    sqrt(max(0, sum_b (w_b / w) (r_b^2 - v_b))).

    r_b  weighted mean of r_i = y_i - q_i in bin b; the bins are weighted quantile bins
    v_b  estimated variance of r_b: sum w_i^2 (r_i - r_b)^2 / (sum w_i)^2 * m / (m - 1), where m = (sum w)^2 / sum w^2
         is the bin's effective count; a bin with m = 1 has no information, and its r_b^2 - v_b counts as 0

    Kumar, Liang & Ma, NeurIPS 2019, section 4.2: this is their estimate if probabilities are constant in a bin and
    weights are equal; then v_b = s_b (1 - s_b) / (m - 1), where s_b is the share of true triples. Under perfect
    calibration the sum is near 0 on average, however many bins there are, and about half of the time the error is
    exactly 0.
    A weight says how much a triple represents, not how often it was observed: two equal rows have more information than
    one row of double weight. If weights are scaled to a base rate, as those of corruptions are, the sample has one
    degree of freedom less, and v_b is slightly too large. Raises InputError for values out of range.
    """
    t = tally(probabilities, labels, weights)
    return debiased_rmsce_of(t, equal_mass_bins(t, bins))


def debiased_rmsce_of(t: Tally, starts: Ints) -> float:
    """`debiased_rmsce` of a tally, over the bins that start at these entries (m,)."""
    return float(np.sqrt(max(0.0, debiased_square(t, starts))))


def debiased_square(t: Tally, starts: Ints) -> float:
    """The debiased mean square calibration error, which can be below 0; `debiased_rmsce` is its root."""

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


def ece_equal_mass_of(draw: Draw) -> float:
    """`ece_equal_mass` of a draw, over the bins of the whole sample."""
    return binned_ece_of(draw.tally, draw.sample.once(_starts))


def debiased_rmsce_of_draw(draw: Draw) -> float:
    """`debiased_rmsce` of a draw, over the bins of the whole sample."""
    return debiased_rmsce_of(draw.tally, draw.sample.once(_starts))


def _starts(sample: Sample) -> Ints:
    return equal_mass_bins(sample.rows.tally(), sample.bins)


METRICS.add(
    "ece_equal_mass", Metric("ECE, equal mass", "calibration", "lowest", ece_equal_mass_of, order=50, column=20)
)
METRICS.add(
    "debiased_rmsce", Metric("debiased RMSCE", "calibration", "lowest", debiased_rmsce_of_draw, order=60, column=30)
)
