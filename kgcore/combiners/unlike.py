"""Candidates that cannot be like the known positives: a test of what is assumed where no label is used.

Without labels, true candidates are assumed to be like the known positives. Then the candidates have the density
g = alpha f+ + (1 - alpha) f-, which is at least alpha f+ everywhere. So for each threshold t of the probabilities q

    D(t) = alpha P_f+(q >= t) - P_g(q >= t) <= 0.

If D(t) > 0, the share D(t) / alpha of the true candidates, or a larger one, has other evidence than the positives. A
combiner that tells positives from candidates has then learned how the positives were collected, not what is true.
"""

from dataclasses import dataclass

import numpy as np

from kgcore.arrays import Probabilities

SURE = 3.0  # standard errors by which D must be above 0


@dataclass(frozen=True)
class Unlike:
    """How many true candidates cannot be like the positives, and what that costs.

    share  estimate of the least share of the true candidates that are unlike the positives, in [0, 1]; 0: no sure sign
    cost   what the Brier score of `unlabelled_brier` lacks for this reason, at least 0
    """

    share: float
    cost: float


def unlike(positives: Probabilities, candidates: Probabilities, base_rate: float) -> Unlike:
    """Return how many true candidates cannot be like the positives, by probabilities that have not seen the rows.

    positives   (n,) probabilities of the positives
    candidates  (u,) probabilities of the candidates
    base_rate   alpha, in (0, 1)

    The threshold t is where D(t) - SURE se(t) is largest, with the standard error se of D. If this is above 0, the
    share is D(t) / alpha. These true candidates are below the threshold, where `cost` gives them the mean probability
    of the candidates there, instead of that of the positives above it: so the term -2 alpha E_f+[q] of the Brier score
    grows by twice this difference for each of them.
    """
    n, u = len(positives), len(candidates)
    limits = np.unique(positives)
    true = 1 - np.searchsorted(np.sort(positives), limits) / n
    every = 1 - np.searchsorted(np.sort(candidates), limits) / u
    most = np.maximum(every, base_rate * true)  # that the candidates have at least, if they are alike
    error = np.sqrt(base_rate**2 * true * (1 - true) / n + most * (1 - most) / u)
    excess = base_rate * true - every
    best = int(np.argmax(excess - SURE * error))
    below = candidates < limits[best]
    if excess[best] <= SURE * error[best] or not below.any():
        return Unlike(0.0, 0.0)
    gap = float(positives[positives >= limits[best]].mean() - candidates[below].mean())
    return Unlike(float(excess[best]) / base_rate, 2 * float(excess[best]) * gap)
