"""Reliability: whether, for example, 70 % of the triples with probability 0.7 are true."""

from dataclasses import dataclass

import numpy as np

from kgcore.arrays import Floats, Ints, Labels, Probabilities, Weights
from kgcore.metrics.base import Draw, Metric, Sample
from kgcore.metrics.bins import bin_starts, binned_ece_of, equal_width_bins
from kgcore.metrics.rows import judged_rows
from kgcore.registries import METRICS

Z95 = 1.959963984540054


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
    q, y, w = judged_rows(probabilities, labels, weights)
    place = equal_width_bins(q, bins)
    total, squares = np.bincount(place, w, bins), np.bincount(place, w**2, bins)
    used = total > 0
    total, squares = total[used], squares[used]
    observed = np.bincount(place, w * y, bins)[used] / total
    predicted = np.bincount(place, w * q, bins)[used] / total
    low, high = wilson(observed, total**2 / squares)
    edges = np.linspace(0, 1, bins + 1)
    return Reliability(
        edges[:-1][used],
        edges[1:][used],
        predicted,
        observed,
        low,
        high,
        np.bincount(place, minlength=bins)[used].astype(float),
        total / total.sum(),
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


def diagram(sample: Sample) -> Reliability:
    """Compute the reliability diagram of a sample."""
    return reliability(sample.rows.probabilities, sample.rows.labels, sample.rows.weights, sample.bins)


def ece_of(draw: Draw) -> float:
    """Compute `ece` on a draw."""
    return binned_ece_of(draw.tally, draw.sample.once(_starts))


def _starts(sample: Sample) -> Ints:
    return bin_starts(equal_width_bins(sample.rows.q, sample.bins))


def _ece_of_rows(sample: Sample) -> float:
    return sample.once(diagram).ece


METRICS.add("ece", Metric("ECE", "headline", "lowest", ece_of, _ece_of_rows, order=30, column=30, interval=False))
