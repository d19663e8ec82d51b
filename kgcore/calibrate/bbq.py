"""Bayesian binning into quantiles: an average of histogram binnings, weighted by their posterior probability."""

import math
from typing import Self

import numpy as np
from scipy.special import betaln, softmax

from kgcore.arrays import Floats, Ints, Probabilities, Scores, Weights
from kgcore.calibrate.base import Calibrator
from kgcore.calibrate.isotonic import block_starts, positive_share
from kgcore.calibrate.sample import CalibrationSample, shift
from kgcore.registries import CALIBRATORS


def equal_mass(weights: Weights, bins: int) -> Ints:
    """Return the index of the first score in each bin (b,), for b <= bins bins of about equal weight; the first is 0.

    weights  (m,) total weight of the rows at each distinct score, in increasing order of the score
    bins     wanted number of bins, at least 1

    All rows with the same score are in one bin: the bin that contains the middle of their weight. Empty bins are
    dropped.
    """
    middles = (np.cumsum(weights) - weights / 2) / weights.sum()
    place = np.floor(middles * bins + 1e-9)  # 1e-9: rounding must not move a score into the bin below
    starts: Ints = np.r_[0, np.flatnonzero(np.diff(place)) + 1]
    return starts


SPREAD, PRIOR = 10, 2.0  # C and N' of the paper


@CALIBRATORS.register("bbq")
class BBQ(Calibrator):
    """The average q = sum_M P(M | data) q_M over the binnings M of the scores into B bins of equal mass.

    Naeini, Cooper & Hauskrecht, AAAI 2015. B = n^(1/3) / 10, ..., 10 n^(1/3). A bin with n_b rows and m_b positives has
    a Beta(alpha_b, beta_b) prior, alpha_b = r N' / B, beta_b = (1 - r) N' / B, N' = 2, and

        P(M | data) ~ prod_b Beta(m_b + alpha_b, n_b - m_b + beta_b) / Beta(alpha_b, beta_b)
        q_M = (m_b + alpha_b) / (n_b + N' / B) in the bin of the score

    Three differences from the paper:

    * The paper centres the prior of a bin on the input probability. A score is not a probability, so the prior is
      centred on r, the share of positives in the sample.
    * Ties can make the binnings for two values of B equal. Such a binning counts once.
    * The average over binnings may fall as the score rises. The nearest non-decreasing step function replaces it: the
      isotonic regression of the average on the scores of the sample.

    A row of weight 2 is still one observation, so weights must not add evidence. Therefore n_b and m_b are effective
    counts (see `effective_weights`), and r is the share of positives among them. At the end, `shift` moves the
    probabilities to the base rate of the sample.

    edges_          (b - 1,) increasing, half-way between two neighbouring scores where the average rises; a score on an
                    edge belongs to the bin below it
    probabilities_  (b,) non-decreasing, in [0, 1]
    """

    fitted = ("edges", "probabilities")
    edges_: Floats
    probabilities_: Probabilities

    def fit_sample(self, sample: CalibrationSample) -> Self:
        from sklearn.isotonic import isotonic_regression

        effective = sample.effective_weights
        rate = float(np.average(sample.labels, weights=effective))
        scores, place = np.unique(sample.scores, return_inverse=True)
        columns = (effective, effective * sample.labels)
        totals, true = (np.bincount(place, own).astype(np.float64) for own in columns)
        root = totals.sum() ** (1 / 3)
        sizes = range(max(1, int(root / SPREAD)), math.ceil(root * SPREAD) + 1)
        binnings = {starts.tobytes(): starts for starts in (equal_mass(totals, size) for size in sizes)}
        evidence, shares = [], []
        for starts in binnings.values():
            positives, rows = np.add.reduceat(true, starts), np.add.reduceat(totals, starts)
            evidence.append(log_evidence(positives, rows, rate))
            shares.append((positives + rate * PRIOR / len(starts)) / (rows + PRIOR / len(starts)))
        average = np.zeros(len(scores))
        for posterior, starts, means in zip(softmax(evidence), binnings.values(), shares, strict=True):
            average += posterior * np.repeat(means, np.diff(np.r_[starts, len(average)]))
        merged = block_starts(isotonic_regression(average, sample_weight=totals))
        weighted = np.add.reduceat(average * totals, merged)
        rising = positive_share(weighted, np.add.reduceat(totals, merged))
        low, high = scores[merged[1:] - 1], scores[merged[1:]]
        middle = low / 2 + high / 2
        edges = np.where(middle < high, middle, low)
        return self.set_fitted(edges=edges, probabilities=shift(rising, rate, sample.base_rate))

    def calibrate(self, scores: Scores) -> Probabilities:
        return self.probabilities_[np.searchsorted(self.edges_, scores)]


def log_evidence(positives: Weights, rows: Weights, rate: float) -> float:
    """Return ln P(data | M), the natural logarithm of the likelihood of the sample under a binning M.

    positives  (b,) effective number of positives in each bin, at least 0
    rows       (b,) effective number of rows in each bin, at least `positives`
    rate       r, the centre of the prior, in (0, 1)
    """
    alpha, beta = rate * PRIOR / len(rows), (1 - rate) * PRIOR / len(rows)
    terms: Floats = betaln(positives + alpha, rows - positives + beta) - betaln(alpha, beta)
    return float(terms.sum())
