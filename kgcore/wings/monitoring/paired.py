"""Compare two models on the same triples: the gain in Brier score, and the difference of their calibration errors.

Both have standard errors by a formula, without a bootstrap. Corruptions of one positive are one observation.
"""

from dataclasses import dataclass

import numpy as np

from kgcore.arrays import Floats, Ints, Labels, Probabilities, Weights

_LEAST = 1e-12
BINS = 5


@dataclass(frozen=True)
class ExpectedTriples:
    """The triples that are expected if the challenger is not better.

    At a low base rate, the few negatives with a high probability decide which model is better. Often the sample holds
    no such negative. Then a variance that is computed from the sample is far too small. In a sample at a low natural
    base rate, the same is true for the positives.

    The variance of a sum of w_i f(x_i, y_i) over the triples is that of the two labels together,
    sum_i v_i0 f(x_i, 0)^2 + sum_i v_i1 f(x_i, 1)^2, less the squares of the means if the weights fix the base rate.

    masses  (2, n) the numbers v_i0 and v_i1
    own     (2,) sum of the squared weights of the triples with label 0 and with label 1
    fixed   whether the weights fix the base rate
    """

    masses: Floats
    own: Floats
    fixed: bool

    @classmethod
    def of(
        cls, challenger: Probabilities, champion: Probabilities, labels: Labels, weights: Weights, fixed: bool
    ) -> "ExpectedTriples":
        """Return the expected triples from the probabilities q and r, labels and weights, all (n,).

        Where the share of positives is p = (q + r) / 2, both models have the same expected squared error. Where it is
        on the champion's side of p, triples that count against the challenger are still more frequent.

        If the weights fix the base rate, positives and negatives are two samples. Positives with a high probability are
        in the sample even if negatives are not. A positive of weight w stands for negatives like it of weight
        w (1 - p) / p, and a negative for positives of weight w p / (1 - p). Times the mean weight of a triple of that
        label, sum w^2 / sum w, this is v. If the weights do not fix it, a triple has the label 1 with probability p, so
        v_i1 = w_i^2 p.
        """
        p = ((challenger + champion) / 2).clip(_LEAST, 1 - _LEAST)
        shares = np.stack([1 - p, p])
        has = np.stack([labels == 0, labels == 1])
        squares = (has * weights**2).sum(axis=1)
        if not fixed:
            return cls(weights**2 * shares, squares, fixed)
        sums = (has * weights).sum(axis=1)
        mean = squares / np.where(sums > 0, sums, 1)
        return cls(~has * weights * shares / (1 - shares) * mean[:, None], squares, fixed)

    def variance(self, label: int, values: Floats) -> float:
        """Return the part of the variance that is due to a label. `values` (n,) are f(x_i, label)."""
        second, first = float(self.masses[label] @ values**2), float(self.masses[label] @ values)
        if not self.fixed or self.own[label] == 0:
            return second
        return max(0.0, second - first**2 / float(self.own[label]))

    def covariance(self, values: tuple[Floats, Floats]) -> Floats:
        """Return the second moments (k, k) of k sums. `values` are f(x_i, 0) and f(x_i, 1), both (n, k)."""
        both: Floats = sum((v * mass[:, None]).T @ v for v, mass in zip(values, self.masses, strict=True))
        return both


@dataclass(frozen=True)
class PairedRows:
    """The n triples of a comparison.

    labels    (n,) 0/1
    weights   (n,) positive
    clusters  (n,) number of the cluster of each triple, from 0. A corruption is in the cluster of its positive
    fixed     whether the weights fix the base rate. If not, the share of positives is a part of what was observed
    halves    whether triples have confidences: each is a cluster of up to two rows, as true and as false
    """

    labels: Labels
    weights: Weights
    clusters: Ints
    fixed: bool
    halves: bool = False

    @property
    def triples(self) -> int:
        """The number of triples."""
        return int(self.clusters.max()) + 1 if self.halves else len(self)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def balanced(self) -> Weights:
        """Return the weights (n,), divided by the sum for the same label: positives and negatives weigh the same."""
        numbers = self.labels.astype(np.int64)
        return self.weights / np.bincount(numbers, self.weights, 2)[numbers]

    @property
    def base_rate(self) -> float:
        """Return the share of positives, by weight."""
        return float(np.average(self.labels, weights=self.weights))


@dataclass(frozen=True)
class Gain:
    """The Brier score of the champion minus that of the challenger, and its standard error.

    error   standard error as observed
    unseen  variances that are due to negatives and to positives, if the challenger is not better (`ExpectedTriples`)
    """

    value: float
    error: float
    unseen: tuple[float, float]

    @property
    def cautious(self) -> float:
        """Return the standard error of the test: the larger one of that observed and that under the hypothesis."""
        return float(max(self.error, np.sqrt(sum(self.unseen))))


def brier_gain(challenger: Probabilities, champion: Probabilities, rows: PairedRows) -> Gain:
    """Return the gain in Brier score of the challenger: sum w_i g_i / sum w, g_i = (r_i - y_i)^2 - (q_i - y_i)^2.

    challenger, champion  (n,) probabilities q and r in [0, 1]

    The squared standard error is sum_c u_c^2 / (sum w)^2 * C / (C - 1) over the C clusters, where u_c is the sum of
    w_i (g_i - m_i) in cluster c (linearisation; Cochran 1977, sections 5 and 9A). m_i is the weighted mean of g, over
    the triples with the same label if the weights fix the base rate. The variances of `unseen` are multiplied by the
    design effect of the clusters, the ratio of sum_c u_c^2 to that of single triples, if it is above 1.
    """
    y, w = rows.labels, rows.weights
    g = (champion - y) ** 2 - (challenger - y) ** 2
    value, means = float(np.average(g, weights=w)), np.zeros(len(g))
    for label in (0, 1):
        of_label = y == label
        if of_label.any():
            means[of_label] = np.average(g[of_label], weights=w[of_label]) if rows.fixed else value
    deviations = w * (g - means) / w.sum()
    sums = np.bincount(rows.clusters, deviations)
    count, single = len(sums), float((deviations**2).sum())
    variance = float((sums**2).sum())
    effect = max(1.0, variance / single) if single > 0 else 1.0
    unseen, scale = ExpectedTriples.of(challenger, champion, y, w, rows.fixed), effect / float(w.sum()) ** 2
    negatives = scale * unseen.variance(0, champion**2 - challenger**2)
    positives = scale * unseen.variance(1, (1 - champion) ** 2 - (1 - challenger) ** 2)
    return Gain(value, float(np.sqrt(variance * count / max(count - 1, 1))), (negatives, positives))


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


@dataclass(frozen=True)
class _Side:
    """The b bins of a model.

    place       (n,) bin of each triple
    totals      (b,) weight of each bin
    means       (b,) mean residuals y - q
    deviations  (C, b) of the C clusters. Their outer products add up to the covariance matrix of the means
    """

    place: Ints
    totals: Floats
    means: Floats
    deviations: Floats


def calibration_excess(challenger: Probabilities, champion: Probabilities, rows: PairedRows) -> Excess:
    """Return the difference of the debiased squared calibration errors of two models.

    challenger, champion  (n,) probabilities in [0, 1]

    Each model has BINS bins. All have the same mass if positives and negatives weigh the same. Bins of the same mass at
    a low base rate would see hardly any of the error, because it is where the probabilities are high.

    Let m be the 2B weighted mean residuals y - q of the challenger's bins and y - r of the champion's bins, V their
    covariance matrix, and S the diagonal matrix of the bins' shares of the weight, negative for the champion. Then

        value = m' S m - tr(S V),   error^2 = 4 m' S V S m - 2 tr(S V S V), at least 2 tr(S V S V)

    The first is the difference of two estimates of Kumar, Liang & Ma (NeurIPS 2019, section 4.2). The second is the
    variance of a quadratic form of normal variables (Searle 1971, section 2.5), with its estimate of m' S V S m
    corrected for bias. V has the covariances between the bins of both models. So what both have in common, above all
    the labels, cancels. The error is computed again with the V that is expected if the models are equal
    (`ExpectedTriples`), and the larger one counts.
    """
    models = (challenger, champion)
    sides = [_side(q, rows) for q in models]
    means = np.concatenate([side.means for side in sides])
    signed = np.concatenate([sign * one.totals for sign, one in zip((1, -1), sides, strict=True)]) / rows.weights.sum()
    sums = np.concatenate([side.deviations for side in sides], axis=1)
    covariance = sums.T @ sums
    form = signed * means**2 - signed * np.diag(covariance)
    spread = [
        np.concatenate(
            [_in_bins((label - q) / one.totals[one.place], one) for q, one in zip(models, sides, strict=True)], 1
        )
        for label in (0, 1)
    ]
    expected = ExpectedTriples.of(challenger, champion, rows.labels, rows.weights, rows.fixed).covariance(
        (spread[0], spread[1])
    )
    errors = [_errors(signed, means, matrix) for matrix in (covariance, expected)]
    error, noise = (max(both) for both in zip(*errors, strict=True))
    first = len(sides[0].means)
    return Excess(float(form[:first].sum()), -float(form[first:].sum()), error, noise)


def _errors(signed: Floats, means: Floats, covariance: Floats) -> tuple[float, float]:
    """Return the standard error of m' S m with this covariance matrix, and its part for perfect calibration."""
    product = signed[:, None] * covariance
    noise = max(0.0, 2 * float(np.trace(product @ product)))
    linear = 4 * float((signed * means) @ covariance @ (signed * means))
    return float(np.sqrt(max(linear - noise, noise))), float(np.sqrt(noise))


def _in_bins(values: Floats, side: _Side) -> Floats:
    """Return a matrix (n, b) with the value (n,) of each triple in the column of its bin."""
    matrix = np.zeros((len(values), len(side.totals)))
    matrix[np.arange(len(values)), side.place] = values
    return matrix


def _side(q: Probabilities, rows: PairedRows) -> _Side:
    """Return the bins of a model."""
    y, w, clusters = rows.labels, rows.weights, int(rows.clusters.max()) + 1
    place = _bins(q, rows.balanced)
    count = int(place.max()) + 1
    total: Floats = np.bincount(place, w, count).astype(np.float64)
    means = np.bincount(place, w * (y - q), count) / total
    cell = rows.clusters * count + place
    weight = np.bincount(cell, w, clusters * count).reshape(clusters, count)
    sums = np.bincount(cell, w * (y - q - means[place]), clusters * count).reshape(clusters, count) / total
    effective = total**2 / (weight**2).sum(axis=0)
    several = effective > 1 + 1e-9
    scale = np.sqrt(np.where(several, effective / np.where(several, effective - 1, 1), 1))
    return _Side(place, total, means, sums * scale)


def _bins(q: Probabilities, weights: Weights) -> Ints:
    """Return the bin (n,) of each triple, from 0. Bins have about equal weight; equal probabilities share a bin."""
    values, place = np.unique(q, return_inverse=True)
    weight = np.bincount(place, weights, len(values))
    middle = (np.cumsum(weight) - weight / 2) / weight.sum()
    of_value = np.floor(BINS * middle + 1e-9).astype(np.int64).clip(0, BINS - 1)
    return np.unique(of_value, return_inverse=True)[1][place].astype(np.int64)
