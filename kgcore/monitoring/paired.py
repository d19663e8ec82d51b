"""Compare two models on the same triples: the gain in Brier score, and the difference of their calibration errors.

Both have standard errors by a formula, without a bootstrap. Corruptions of one positive are one observation.
"""

from dataclasses import dataclass

import numpy as np

from kgcore.arrays import Bools, Floats, Ints, Labels, Probabilities, Weights

BINS = 5


@dataclass(frozen=True)
class Rows:
    """The n triples of a comparison.

    labels    (n,) 0/1
    weights   (n,) positive
    clusters  (n,) number of the cluster of each triple, from 0. A corruption is in the cluster of its positive
    fixed     whether the weights fix the base rate. If not, the share of positives is a part of what was observed
    """

    labels: Labels
    weights: Weights
    clusters: Ints
    fixed: bool

    def __len__(self) -> int:
        return len(self.labels)

    def part(self, rows: Bools) -> "Rows":
        """Return the triples where the mask (n,) is True, with their weights."""
        clusters = np.unique(self.clusters[rows], return_inverse=True)[1].astype(np.int64)
        return Rows(self.labels[rows], self.weights[rows], clusters, self.fixed)

    @property
    def base_rate(self) -> float:
        """Return the share of positives, by weight."""
        return float(np.average(self.labels, weights=self.weights))


@dataclass(frozen=True)
class Gain:
    """The Brier score of the champion minus that of the challenger, and its standard error.

    error   standard error as observed
    unseen  (2,) variances due to negatives and to positives, if the challenger is not better (`_null_variances`)
    """

    value: float
    error: float
    unseen: tuple[float, float]

    @property
    def cautious(self) -> float:
        """Return the standard error of the test: the larger one of that observed and that under the hypothesis."""
        return float(max(self.error, np.sqrt(sum(self.unseen))))


def brier_gain(challenger: Probabilities, champion: Probabilities, rows: Rows) -> Gain:
    """Return the gain in Brier score of the challenger: sum w_i g_i / sum w, g_i = (r_i - y_i)^2 - (q_i - y_i)^2.

    challenger, champion  (n,) probabilities q and r in [0, 1]

    The squared standard error is sum_c u_c^2 / (sum w)^2 * C / (C - 1) over the C clusters, where u_c is the sum of
    w_i (g_i - m_i) in cluster c (linearisation; Cochran 1977, sections 5 and 9A). m_i is the weighted mean of g, over
    the triples with the same label if the weights fix the base rate.
    """
    y, w = rows.labels, rows.weights
    g = (champion - y) ** 2 - (challenger - y) ** 2
    value, means = float(np.average(g, weights=w)), np.zeros(len(g))
    for label in (0, 1):
        own = y == label
        if own.any():
            means[own] = np.average(g[own], weights=w[own]) if rows.fixed else value
    deviations = w * (g - means) / w.sum()
    sums = np.bincount(rows.clusters, deviations)
    count, single = len(sums), float((deviations**2).sum())
    variance = float((sums**2).sum())
    effect = max(1.0, variance / single) if single > 0 else 1.0
    negatives, positives = (effect * one for one in _null_variances(challenger, champion, rows))
    return Gain(value, float(np.sqrt(variance * count / max(count - 1, 1))), (negatives, positives))


def _null_variances(challenger: Probabilities, champion: Probabilities, rows: Rows) -> tuple[float, float]:
    """Return the parts of the variance of the gain that are due to negatives and to positives, if there is no gain.

    Where the share of positives is p = (q + r) / 2, both models have the same expected squared error. Then each triple
    adds 4 p (1 - p) (q - r)^2 to the second moment of g. At a low base rate, the few negatives with a high probability
    have most of the variance, and often none is in the sample. So the observed variance is far too small. But positives
    with such a probability are in the sample. A positive of weight w stands for negatives like it of weight
    w (1 - p) / p, and a negative for positives of weight w p / (1 - p). So, if the weights fix the base rate, the
    second moment for one label is computed from the triples with the other label. The variance for a label is this,
    less the square of the mean, times the mean weight of a triple with this label.

    As in every score test, the variance is that under the hypothesis. If the share of positives is on the champion's
    side of p, triples that count against the challenger are even more frequent than expected.
    """
    y, w = rows.labels, rows.weights
    p, total = (challenger + champion) / 2, float(w.sum())
    moments = 4 * p * (1 - p) * (challenger - champion) ** 2
    if not rows.fixed:
        every, positives = w**2 * moments / total**2, w**2 * moments * p / total**2
        return float((every - positives).sum()), float(positives.sum())
    parts = []
    for label, means in ((0, 2 * (1 - p) * (champion - challenger)), (1, 2 * p * (challenger - champion))):
        own, other = y == label, y != label
        if not own.any():
            return 0.0, 0.0
        weight, mean = float(w[own].sum()), float((w * means)[other].sum())
        second = float((w * moments)[other].sum())
        parts.append(float((w[own] ** 2).sum()) / weight * max(0.0, second - mean**2 / weight) / total**2)
    return parts[0], parts[1]


@dataclass(frozen=True)
class Excess:
    """By how much the squared calibration error of the challenger is higher than that of the champion.

    challenger  debiased squared calibration error of the challenger; by chance it can be below 0
    champion    that of the champion
    error       standard error of the difference
    noise       the part of `error` that is left if both are perfectly calibrated. It falls as 1 / n
    """

    challenger: float
    champion: float
    error: float
    noise: float

    @property
    def value(self) -> float:
        """Return the difference."""
        return self.challenger - self.champion


def calibration_excess(challenger: Probabilities, champion: Probabilities, rows: Rows, bins: int = BINS) -> Excess:
    """Return the difference of the debiased squared calibration errors of two models.

    challenger, champion  (n,) probabilities in [0, 1]
    bins                  number of bins of equal mass, for each model its own

    Let m be the 2B weighted mean residuals y - q of the challenger's bins and y - r of the champion's bins, V their
    covariance matrix, and S the diagonal matrix of the bins' shares of the weight, negative for the champion. Then

        value = m' S m - tr(S V),   error^2 = 4 m' S V S m - 2 tr(S V S V), at least 2 tr(S V S V)

    The first is the difference of two estimates of Kumar, Liang & Ma (NeurIPS 2019, section 4.2). The second is the
    variance of a quadratic form of normal variables (Searle 1971, section 2.5), with its estimate of m' S V S m
    corrected for bias. V has the covariances between the bins of both models. So what both have in common, above all
    the labels, cancels.
    """
    sides = [_residuals(q, rows, bins) for q in (challenger, champion)]
    means = np.concatenate([side[0] for side in sides])
    signed = np.concatenate([sign * side[1] for sign, side in zip((1, -1), sides, strict=True)])
    sums = np.concatenate([side[2] for side in sides], axis=1)
    covariance = sums.T @ sums
    form = signed * means**2 - signed * np.diag(covariance)
    product = signed[:, None] * covariance
    noise = 2 * float(np.trace(product @ product))
    linear = 4 * float((signed * means) @ covariance @ (signed * means))
    first, noise = len(sides[0][0]), max(noise, 0.0)
    error = float(np.sqrt(max(linear - noise, noise)))
    return Excess(float(form[:first].sum()), -float(form[first:].sum()), error, float(np.sqrt(noise)))


def _residuals(q: Probabilities, rows: Rows, bins: int) -> tuple[Floats, Floats, Floats]:
    """Return the mean residual (b,), the share of the weight (b,), and the deviations of the clusters (C, b) of bins.

    The outer products of the deviations add up to the covariance matrix of the mean residuals.
    """
    y, w, clusters = rows.labels, rows.weights, int(rows.clusters.max()) + 1
    place = _bins(q, w, bins)
    count = int(place.max()) + 1
    total = np.bincount(place, w, count)
    means = np.bincount(place, w * (y - q), count) / total
    cell = rows.clusters * count + place
    weight = np.bincount(cell, w, clusters * count).reshape(clusters, count)
    sums = np.bincount(cell, w * (y - q - means[place]), clusters * count).reshape(clusters, count) / total
    effective = total**2 / (weight**2).sum(axis=0)
    several = effective > 1 + 1e-9
    scale = np.sqrt(np.where(several, effective / np.where(several, effective - 1, 1), 1))
    return means, total / w.sum(), sums * scale


def _bins(q: Probabilities, weights: Weights, bins: int) -> Ints:
    """Return the bin (n,) of each triple, from 0. Bins have about equal weight; equal probabilities share a bin."""
    values, place = np.unique(q, return_inverse=True)
    weight = np.bincount(place, weights, len(values))
    middle = (np.cumsum(weight) - weight / 2) / weight.sum()
    of_value = np.floor(bins * middle + 1e-9).astype(np.int64).clip(0, bins - 1)
    numbers: Ints = np.unique(of_value, return_inverse=True)[1][place].astype(np.int64)
    return numbers
