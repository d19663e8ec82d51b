"""Calibration errors: whether, for example, 70 % of the triples with probability 0.7 are true; over bins or a kernel.

A set of bins of a tally is stored as the positions of the entries at which the bins start. Smooth ECE uses a kernel
instead of bins, whose width the data determine.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kgcore.arrays import Floats, Ints, Labels, Probabilities, Weights
from kgcore.measure.metrics.base import Metric, Sample, Tally, checked_rows
from kgcore.registries import METRICS

Z95 = 1.959963984540054
CELLS = 2048  # cells of the grid on [0, 1]: narrow compared with the kernel for samples of up to a million triples
TOLERANCE = 1e-10


@dataclass(frozen=True)
class Reliability:
    """A reliability diagram: one row per bin that is not empty; arrays (m,).

    lower, upper  the bin's edges
    predicted     weighted mean probability in the bin
    observed      weighted share of true triples
    low, high     ends of the 95 % Wilson interval of `observed`, with the effective count of the bin
    count         number of triples in the bin
    weight        the bin's share of the total weight; sums to 1
    """

    lower: Floats
    upper: Floats
    predicted: Floats
    observed: Floats
    low: Floats
    high: Floats
    count: Floats
    weight: Floats

    @property
    def ece(self) -> float:
        """Return the expected calibration error (Naeini et al. 2015): sum of weight * |observed - predicted|."""
        return float(self.weight @ np.abs(self.observed - self.predicted))


def reliability(
    probabilities: Probabilities, labels: Labels, weights: Weights | None = None, bins: int = 10
) -> Reliability:
    """Compute the reliability diagram over `bins` bins of equal width, each (lower, upper]; the first includes 0.

    The Wilson intervals use the effective count (sum w)^2 / sum w^2 of the bin. Raises InputError for values out of
    range.
    """
    q, y, w = checked_rows(probabilities, labels, weights)
    place = equal_width_bins(q, bins)
    total, squares = np.bincount(place, w, bins), np.bincount(place, w**2, bins)
    used = total > 0
    total, squares = total[used], squares[used]
    observed = np.bincount(place, w * y, bins)[used] / total
    predicted = np.bincount(place, w * q, bins)[used] / total
    low, high = wilson(observed, total**2 / squares)
    edges, count = np.linspace(0, 1, bins + 1), np.bincount(place, minlength=bins)[used].astype(float)
    return Reliability(
        edges[:-1][used], edges[1:][used], predicted, observed, low, high, count, weight=total / total.sum()
    )


def ece(probabilities: Probabilities, labels: Labels, weights: Weights | None = None) -> float:
    """Return the expected calibration error over ten bins of equal width, in [0, 1]; see `Reliability.ece`."""
    return reliability(probabilities, labels, weights).ece


def wilson(share: Floats, count: Floats) -> tuple[Floats, Floats]:
    """Return the lower and the upper end (m,) of Wilson's 95 % score interval of a share (Wilson 1927).

    share  (m,) observed shares, in [0, 1]
    count  (m,) numbers of trials, above 0; they can be fractional
    """
    z = Z95
    centre = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z * np.sqrt(share * (1 - share) / count + z**2 / (4 * count**2)) / (1 + z**2 / count)
    return np.maximum(centre - half, 0.0), np.minimum(centre + half, 1.0)


def equal_width_bins(probabilities: Probabilities, bins: int) -> Ints:
    """Return the bin numbers (n,), from 0, of probabilities (n,).

    There are `bins` equally wide bins (lower, upper]; the first bin includes 0.
    """
    return np.clip(np.ceil(probabilities * bins).astype(np.int64) - 1, 0, bins - 1)


def equal_mass_bins(t: Tally, bins: int) -> Ints:
    """Return the positions of the tally's entries at which a bin starts (m,), m <= bins; the first is 0.

    An entry is in bin floor(bins * c). c is the share of the total weight that lies below the entry, plus half of the
    share of the entry itself. Equal probabilities stay in one bin, so m can be less than `bins`. If all probabilities
    are equal, m is 1.
    """
    weight = t.weight
    middle = (np.cumsum(weight) - weight / 2) / weight.sum()
    return bin_starts(np.floor(bins * middle + 1e-9).astype(np.int64).clip(0, bins - 1))


def bin_starts(place: Ints) -> Ints:
    """Return the positions (m,) at which a bin starts. `place` (g,) is the bin number of each entry, non-decreasing."""
    return np.flatnonzero(np.diff(place, prepend=-1))


def binned_ece(t: Tally, starts: Ints) -> float:
    """Return the expected calibration error of a tally, in [0, 1]: sum_b |sum_{i in b} w_i (y_i - q_i)| / sum w.

    starts  (m,) positions of the entries at which the bins b start
    """
    return float(np.abs(np.add.reduceat(t.residual, starts)).sum() / t.weight.sum())


def ece_of(t: Tally) -> float:
    """Compute `ece` on a tally, with the bins of its sample."""
    return binned_ece(t, t.sample.once(_equal_width_starts))


def _equal_width_starts(sample: Sample) -> Ints:
    return bin_starts(equal_width_bins(sample.q, sample.bins))


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


def ece_equal_mass(t: Tally) -> float:
    """Return the expected calibration error over bins of equal mass, in [0, 1].

    Nguyen & O'Connor, EMNLP 2015 (there called "adaptive" binning). The bins are those of the sample before resampling.
    """
    return binned_ece(t, t.sample.once(_equal_mass_starts))


def debiased_rmsce(t: Tally) -> float:
    """Return the root of `debiased_square` in [0, 1], or 0 where it is below 0.

    The bins have equal mass, and are those of the sample before resampling. If the triples of a cluster vary together,
    the variance v_b of a bin is that of sums over clusters.
    """
    square = debiased_square(t, t.sample.once(_equal_mass_starts)) - t.sample.once(_clustered)
    return float(np.sqrt(max(0.0, square)))


def _clustered(sample: Sample) -> float:
    """Return sum_b (w_b / w) (V_b - v_b): by how much clusters raise the variance of r_b; 0 without clusters.

    V_b = sum_c (sum_{i in b and c} w_i (r_i - r_b))^2 / w_b^2 * m / (m - 1), with the effective number m of clusters in
    the bin. A bin with m = 1 has no information, so its V_b is r_b^2. v_b is that of `debiased_square`.
    """
    if sample.clusters is None:
        return 0.0
    starts = sample.once(_equal_mass_starts)
    bins = np.searchsorted(starts, sample.place, side="right") - 1
    weight = np.bincount(bins, sample.weights)
    residual = sample.labels - sample.q[sample.place]
    mean = np.bincount(bins, sample.weights * residual) / weight
    cells, cell = np.unique(bins * (int(sample.clusters.max()) + 1) + sample.clusters, return_inverse=True)
    bin_of_cell = cells // (int(sample.clusters.max()) + 1)
    sums = np.bincount(cell, sample.weights * (residual - mean[bins]))
    count = weight**2 / np.bincount(bin_of_cell, np.bincount(cell, sample.weights) ** 2)
    several = count > 1 + 1e-9
    spread = np.bincount(bin_of_cell, sums**2) / weight**2
    variance = np.where(several, spread * count / np.where(several, count - 1, 1), mean**2)
    plain = float(weight @ mean**2 / weight.sum())
    return float(weight @ variance / weight.sum()) - (plain - debiased_square(sample.tally(), starts))


def _equal_mass_starts(sample: Sample) -> Ints:
    return equal_mass_bins(sample.tally(), sample.bins)


def smooth_ece(t: Tally) -> float:
    """Return the smooth ECE, in [0, 1]: the sigma at which smECE_sigma = sigma.

    Błasiok & Nakkiran, ICLR 2024, "Smooth ECE: Principled Reliability Diagrams via Kernel Smoothing", definitions 2 to
    4.

    smECE_sigma = integral over t in [0, 1] of |sum_i w_i (y_i - q_i) K_sigma(t, q_i)| / sum_i w_i

    K_sigma is the Gaussian density with standard deviation sigma about q_i; its mass beyond 0 and 1 is reflected back.
    smECE_sigma falls as sigma grows, so exactly one sigma satisfies smECE_sigma = sigma. Unlike errors over bins,
    smooth ECE has no setting and does not jump when probabilities change a little. It is near 0 if, and only if, the
    probabilities are near perfect calibration.
    """
    from scipy.optimize import brentq

    error = smoothed_error(t)
    return min(float(brentq(lambda sigma: error(sigma) - sigma, 0.0, 2.0, xtol=TOLERANCE)), 1.0)


def smoothed_error(t: Tally) -> Callable[[float], float]:
    """Return the function sigma -> smECE_sigma of a tally.

    The interval [0, 1] is divided into CELLS equal cells, and each residual is split between the two nearest cell
    centres. The reflected kernel is diagonal in the cosines cos(pi k t), with eigenvalues exp(-(pi k sigma)^2 / 2). So
    the smoothing is a cosine transform, a product with the eigenvalues, and the inverse transform.
    """
    from scipy.fft import dct, idct

    spectrum = dct(_on_grid(t) / t.weight.sum(), norm="ortho")
    decay = -((np.pi * np.arange(CELLS)) ** 2) / 2

    def error(sigma: float) -> float:
        return float(np.abs(idct(spectrum * np.exp(decay * sigma**2), norm="ortho")).sum())

    return error


def _on_grid(t: Tally) -> Floats:
    """Return the sum of the residuals at each cell centre (CELLS,).

    A residual between an end of [0, 1] and the nearest centre is added to this centre in full.
    """
    position = t.q * CELLS - 0.5
    below = np.floor(position).astype(np.int64)
    above, residual = position - below, t.residual
    cells = np.zeros(CELLS)
    cells += np.bincount((below + 1).clip(max=CELLS - 1), residual * above, CELLS)
    cells += np.bincount(below.clip(min=0), residual * (1 - above), CELLS)
    return cells


METRICS.add("ece", Metric("ECE", "headline", "lowest", ece_of, interval=False, order=30, column=30))
METRICS.add(
    "ece_equal_mass",
    Metric("equal-mass ECE", "calibration", "lowest", ece_equal_mass, interval=False, order=50, column=20),
)
METRICS.add(
    "debiased_rmsce",
    Metric(
        "debiased RMSCE", "calibration", "lowest", debiased_rmsce, leading=True, with_ends=True, order=60, column=30
    ),
)
METRICS.add(
    "smooth_ece",
    Metric("smooth ECE", "calibration", "lowest", smooth_ece, leading=True, interval=False, order=70, column=10),
)
