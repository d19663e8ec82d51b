"""The remainder: the scores of mistakes, taken from the candidates themselves without any corruption."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kgcore.arrays import Floats, Probabilities, Scores, Weights
from kgcore.calibrate.hidden import capped
from kgcore.mixture.em import Solution
from kgcore.mixture.goodness import Simulation
from kgcore.mixture.samples import BinCounts, MixtureData, ScoreSample

REMAINDER = "remainder"  # its name among the components of the mistakes
_LARGEST = 1e12  # odds at scores that no candidate has


@dataclass(frozen=True)
class Remainder:
    """Candidates, weighted so that their scores are distributed like those of the mistakes.

    sample   the candidates, unlabelled ones first, then the labelled ones
    weights  (n,) the probability that the candidate is a mistake, in [0, 1]; 1 or 0 for a labelled one
    """

    sample: ScoreSample
    weights: Weights


def remainder(data: MixtureData, base_rate: float, times: Sequence[Weights] | None = None) -> Remainder:
    """Weight the candidates so that they stand for the mistakes, at a stated base rate alpha in (0, 1).

    The scores of candidates have the density g = alpha f+ + (1 - alpha) f-. So the mistakes have the density

        f- = (g - alpha f+) / (1 - alpha),

    which is that of candidates with the weights 1 - q, where q = alpha f+ / g is the probability of a true triple
    (Elkan & Noto, KDD 2008). No corruption is needed. Without a stated base rate, alpha and f- cannot be told apart.

    times  how often each positive, each unlabelled and each labelled candidate counts, in a draw of a bootstrap; None:
           once
    """
    rows = data.positives, data.candidates, data.labelled
    of_positives, of_candidates, of_labelled = times or (np.ones(len(own)) for own in rows)
    true = data.labelled.labels == 1
    positives = np.r_[data.positives.scores, data.labelled.sample.scores[true]]
    known = np.r_[of_positives, of_labelled[true]]
    q = true_shares(positives, data.candidates.scores, base_rate, known, of_candidates)
    weights = np.r_[of_candidates * (1 - q), of_labelled * (1 - data.labelled.labels)]
    return Remainder(data.candidates.joined(data.labelled.sample), weights)


def true_shares(
    positives: Scores, candidates: Scores, base_rate: float, times_positive: Weights, times_candidate: Weights
) -> Probabilities:
    """Estimate the probability q (n,) that each candidate (n,) is true, from the scores alone.

    base_rate        alpha, in (0, 1)
    times_positive   (P,) how often each positive counts
    times_candidate  (n,) how often each candidate counts

    q is alpha f+ / g, and is assumed to be non-decreasing in the score. In the sample of positives and candidates
    together, isotonic regression finds the odds of a positive at each score, by greatest likelihood. Then

        q = min(1, c odds),    with c so that the mean of q over the candidates is alpha.

    This is the case-control likelihood of Ward et al. (Biometrics 65, 2009) under monotonicity. The mean cannot be
    larger than with q = 1 at every score with odds above 0. If alpha is larger, the result has this largest mean.
    """
    from sklearn.isotonic import isotonic_regression

    scores, place = np.unique(np.r_[positives, candidates], return_inverse=True)
    at_positives, at_candidates = np.split(place, [len(positives)])
    positives_at = np.bincount(at_positives, times_positive, len(scores))
    every = positives_at + np.bincount(at_candidates, times_candidate, len(scores))
    used = every > 0
    share = np.zeros(len(scores))
    share[used] = isotonic_regression(positives_at[used] / every[used], sample_weight=every[used], y_min=0.0, y_max=1.0)
    odds = share[at_candidates] / np.maximum(1 - share[at_candidates], 1 / _LARGEST)
    return capped(odds, times_candidate, base_rate) if odds.any() else odds


def remainder_share(simulation: Simulation, base_rate: float) -> float:
    """Return the share rho of the remainder in the mistakes, in [0, 1]: the rest comes from the strategies.

        rho = max(0, 1 - E D^2 / D^2),    D^2 = sum_b g_b (q_b - q'_b)^2

    q_b is the probability of a true triple in bin b by the fitted strategies, q'_b by the remainder, both
    non-decreasing. g_b is the share of candidates. E D^2 is the mean of D^2 over the drawn problems of `simulation`, in
    which the strategies are right.

    The remainder is right whatever the mistakes are, but it is noisy. The strategies have little noise, but they may be
    wrong. If the noise of the remainder has the variance V = E D^2 and the error of the strategies is D^2 - V, the
    mixture of both with the share rho has the least squared error of the probabilities. It is shrinkage towards a model
    (James & Stein 1961; Efron & Morris, JASA 68, 1973).
    """
    observed = float(_distances(simulation.counts, simulation.solved, base_rate)[0])
    expected = float(_distances(simulation.drawn, simulation.again, base_rate).mean())
    return max(0.0, 1 - expected / observed) if observed > 0 else 0.0


def _distances(counts: BinCounts, solved: Solution, base_rate: float) -> Floats:
    """Return D^2 (S,) of each problem."""
    from sklearn.isotonic import isotonic_regression

    bins = np.arange(counts.candidates.shape[-1], dtype=np.float64)
    distances = []
    for candidates, positives, weights, densities in zip(
        counts.candidates, counts.components[:, 0], solved.weights, solved.densities, strict=True
    ):
        parts = weights[:, None] * densities
        g = np.maximum(parts.sum(axis=0), 1e-300)
        by_strategies = isotonic_regression(parts[0] / g, sample_weight=g, y_min=0.0, y_max=1.0)
        by_remainder = true_shares(bins, bins, base_rate, positives, candidates)
        distances.append(candidates @ (by_strategies - by_remainder) ** 2 / candidates.sum())
    return np.array(distances)
