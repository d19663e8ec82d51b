"""Bayesian binning into quantiles: histogram binnings of every size, averaged by how well each explains the labels."""

import math
from typing import Self

import numpy as np
from scipy.special import betaln, softmax

from kgcore.arrays import Floats, Weights
from kgcore.calibration.effective import effective_weights
from kgcore.calibration.pav import block_starts, pool, share
from kgcore.calibration.sample import CalibrationSample
from kgcore.calibration.shift import shift
from kgcore.calibration.steps import Steps, equal_mass
from kgcore.registries import CALIBRATORS

SPREAD, PRIOR = 10, 2.0  # the paper's C and N'


@CALIBRATORS.register("bbq")
class BBQ(Steps):
    """q = sum_M P(M | data) q_M over the binnings M of the scores into B bins of equal mass,
    B = n^(1/3) / 10, ..., 10 n^(1/3).

    Naeini, Cooper & Hauskrecht, AAAI 2015. A bin with n_b rows and m_b positives has a Beta(alpha_b, beta_b) prior,
    alpha_b = r N' / B, beta_b = (1 - r) N' / B, N' = 2, and

        P(M | data) ~ prod_b Beta(m_b + alpha_b, n_b - m_b + beta_b) / Beta(alpha_b, beta_b)
        q_M = (m_b + alpha_b) / (n_b + N' / B) in the score's bin

    The paper centres the prior of a bin on the probability that it is to correct; a score is none, so it is centred on
    r, the sample's share of positives. Binnings that ties make equal count once. The average need not rise with the
    score, but a calibrator must: it is replaced by the nearest non-decreasing steps (isotonic regression of the average
    on the sample's scores).

    Labels are drawn for rows, not for weights: n_b and m_b are effective counts, r their share, and the result is told
    about the sample's base rate by `shift`. So weight 2 is not two rows: it would count as twice the evidence.
    """

    @classmethod
    def fit(cls, sample: CalibrationSample) -> Self:
        effective = effective_weights(sample)
        rate = float(np.average(sample.labels, weights=effective))
        pooled = pool(sample.scores, sample.labels, effective)
        root = pooled.weights.sum() ** (1 / 3)
        sizes = range(max(1, int(root / SPREAD)), math.ceil(root * SPREAD) + 1)
        binnings = {starts.tobytes(): starts for starts in (equal_mass(pooled.weights, size) for size in sizes)}
        evidence, shares = [], []
        for starts in binnings.values():
            positives, rows = np.add.reduceat(pooled.positives, starts), np.add.reduceat(pooled.weights, starts)
            evidence.append(log_evidence(positives, rows, rate))
            shares.append((positives + rate * PRIOR / len(starts)) / (rows + PRIOR / len(starts)))
        average = np.zeros(len(pooled.scores))
        for posterior, starts, means in zip(softmax(evidence), binnings.values(), shares, strict=True):
            average += posterior * np.repeat(means, np.diff(np.r_[starts, len(average)]))
        rising = block_starts(average, pooled.weights)
        weighted = np.add.reduceat(average * pooled.weights, rising)
        levels = shift(share(weighted, np.add.reduceat(pooled.weights, rising)), rate, sample.base_rate)
        return cls.through(pooled.scores, np.repeat(levels, np.diff(np.r_[rising, len(average)])))


def log_evidence(positives: Weights, rows: Weights, rate: float) -> float:
    """ln P(data | M) of a binning with these positives and rows (b,) in its bins, the prior centred on `rate`."""
    alpha, beta = rate * PRIOR / len(rows), (1 - rate) * PRIOR / len(rows)
    terms: Floats = betaln(positives + alpha, rows - positives + beta) - betaln(alpha, beta)
    return float(terms.sum())
