"""Calibration errors over bins of equal mass, each of which holds about the same share of the total weight."""

import numpy as np

from kgcore.arrays import Floats, Ints
from kgcore.metrics.base import Draw, Metric, Sample
from kgcore.metrics.bins import binned_ece_of, equal_mass_bins
from kgcore.metrics.tally import Tally
from kgcore.registries import METRICS


def debiased_square(t: Tally, starts: Ints) -> float:
    """Return the mean square calibration error, corrected for sampling error: sum_b (w_b / w) (r_b^2 - v_b).

    starts  (m,) the positions of the entries at which the bins b start

    r_b  weighted mean of r_i = y_i - q_i in bin b; w_b is the weight of the bin
    v_b  estimated variance of r_b: sum w_i^2 (r_i - r_b)^2 / (sum w_i)^2 * m / (m - 1), where m = (sum w)^2 / sum w^2
         is the bin's effective count. A bin with m = 1 has no information about the error, so its r_b^2 - v_b
         counts as 0

    If weights are equal and probabilities are constant in a bin, this is the estimate of Kumar, Liang & Ma, NeurIPS
    2019, section 4.2. Then v_b = s_b (1 - s_b) / (m - 1), where s_b is the share of true triples. Under perfect
    calibration the sum is near 0 on average, for any number of bins, and below 0 about half of the time.
    A weight says how many triples a row represents, not how often the row was observed. So two rows of weight 1 have
    more information than one row of weight 2. If weights are scaled to a base rate, as the weights of corruptions are,
    the sample has one degree of freedom less, and v_b is slightly too large.
    """

    def sums(values: Floats) -> Floats:
        return np.add.reduceat(values, starts)[used]

    used = np.add.reduceat(t.weight, starts) > 0
    if_true, if_false, weight = 1 - t.q, -t.q, sums(t.weight)
    mean = sums(t.residual) / weight
    squares = sums(t.positive_squares + t.negative_squares)
    first = sums(t.positive_squares * if_true + t.negative_squares * if_false)
    second = sums(
        t.positive_squares * if_true**2 + t.negative_squares * if_false**2 if t.errors is None else t.errors.squares
    )
    count = weight**2 / squares
    several = count > 1 + 1e-9
    spread = (second - 2 * mean * first + mean**2 * squares).clip(0) / weight**2
    variance = np.where(several, spread * count / np.where(several, count - 1, 1), mean**2)
    return float(weight @ (mean**2 - variance) / weight.sum())


def ece_equal_mass_of(draw: Draw) -> float:
    """Return the expected calibration error over bins of equal mass, in [0, 1].

    Nguyen & O'Connor, EMNLP 2015 (there called "adaptive" binning). The bins are those of the sample before resampling.
    """
    return binned_ece_of(draw.tally, draw.sample.once(_starts))


def debiased_rmsce_of(draw: Draw) -> float:
    """Return the root of `debiased_square` in [0, 1], or 0 where it is below 0.

    The bins have equal mass, and are those of the sample before resampling. If the triples of a cluster vary together,
    the variance v_b of a bin is that of sums over clusters.
    """
    square = debiased_square(draw.tally, draw.sample.once(_starts)) - draw.sample.once(_clustered)
    return float(np.sqrt(max(0.0, square)))


def _clustered(sample: Sample) -> float:
    """Return sum_b (w_b / w) (V_b - v_b): by how much clusters raise the variance of r_b; 0 without clusters.

    V_b = sum_c (sum_{i in b and c} w_i (r_i - r_b))^2 / w_b^2 * m / (m - 1), with the effective number m of clusters in
    the bin. A bin with m = 1 has no information, so its V_b is r_b^2. v_b is that of `debiased_square`.
    """
    if sample.clusters is None:
        return 0.0
    rows, starts, t = sample.rows, sample.once(_starts), sample.rows.tally()
    bins = np.searchsorted(starts, rows.place, side="right") - 1
    weight = np.bincount(bins, rows.weights)
    residual = rows.labels - rows.q[rows.place]
    mean = np.bincount(bins, rows.weights * residual) / weight
    cells, cell = np.unique(bins * (int(sample.clusters.max()) + 1) + sample.clusters, return_inverse=True)
    bin_of_cell = cells // (int(sample.clusters.max()) + 1)
    sums = np.bincount(cell, rows.weights * (residual - mean[bins]))
    count = weight**2 / np.bincount(bin_of_cell, np.bincount(cell, rows.weights) ** 2)
    several = count > 1 + 1e-9
    spread = np.bincount(bin_of_cell, sums**2) / weight**2
    variance = np.where(several, spread * count / np.where(several, count - 1, 1), mean**2)
    plain = float(weight @ mean**2 / weight.sum())
    return float(weight @ variance / weight.sum()) - (plain - debiased_square(t, starts))


def _starts(sample: Sample) -> Ints:
    return equal_mass_bins(sample.rows.tally(), sample.bins)


METRICS.add(
    "ece_equal_mass",
    Metric("equal-mass ECE", "calibration", "lowest", ece_equal_mass_of, order=50, column=20, interval=False),
)
METRICS.add(
    "debiased_rmsce",
    Metric(
        "debiased RMSCE",
        "calibration",
        "lowest",
        debiased_rmsce_of,
        leading=True,
        with_ends=True,
        order=60,
        column=30,
    ),
)
