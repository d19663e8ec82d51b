"""How well a mixture fits candidates, and how well probabilities do, without labels.

The test of fit asks whether the candidates contain mistakes that no strategy resembles. The Brier score of
probabilities q needs no label, because the candidates are a mixture g = alpha f+ + (1 - alpha) f-, and positives of the
density f+ are known: E_g[q^2] - 2 alpha E_f+[q] + alpha. This assumes that true candidates are like the known
positives. Then g is at least alpha f+ everywhere, so for each threshold t of the probabilities

    D(t) = alpha P_f+(q >= t) - P_g(q >= t) <= 0.

If D(t) > 0, the share D(t) / alpha of the true candidates, or a larger one, has other evidence than the positives. A
combiner that tells positives from candidates has then learned how the positives were collected, not what is true.
"""

from dataclasses import dataclass

import numpy as np

from kgcore.arrays import Floats, Probabilities
from kgcore.mixture.em import Solution, simulate, solve
from kgcore.mixture.samples import BinCounts

SURE = 3.0  # standard errors by which D must be above 0


@dataclass(frozen=True)
class Fitness:
    """The result of the test of fit.

    statistic   G^2, at least 0: twice the log-likelihood that the mixture lacks to explain every bin
    p_value     share of simulated data sets with at least this statistic, in (0, 1]
    replicates  number of simulated data sets
    """

    statistic: float
    p_value: float
    replicates: int


@dataclass(frozen=True)
class Simulation:
    """One problem (S = 1) without its labels, and problems that were drawn from its solution.

    counts, solved  the problem and its solution
    drawn, again    the drawn problems and their solutions (S = replicates)
    """

    counts: BinCounts
    solved: Solution
    drawn: BinCounts
    again: Solution


def simulated(
    counts: BinCounts,
    best: Solution,
    alpha: float | None,
    replicates: int,
    rng: np.random.Generator,
    shared: float = 0.0,
) -> Simulation:
    """Draw candidates and components from the fitted densities of one problem, and fit them (parametric bootstrap).

    best    the solution of the problem
    alpha   the stated base rate; None: any base rate
    shared  share of the positives that are also candidates: see `MixtureData`

    Labelled candidates are counted as unlabelled ones.
    """
    unlabelled = counts.without_labels()
    fixed = None if alpha is None else np.array([alpha])
    solved = solve(unlabelled, fixed, start=best) if counts.labels else best
    drawn = simulate(unlabelled, solved, replicates, rng, shared)
    many = None if alpha is None else np.full(replicates, alpha)
    return Simulation(unlabelled, solved, drawn, solve(drawn, many, start=solved.repeat(replicates)))


def fitness_of(simulation: Simulation) -> Fitness:
    """Test whether a mixture of the components explains the candidates. A stated base rate is part of the hypothesis.

    G^2 = 2 (log-likelihood with a free probability for each bin in each sample - greatest log-likelihood). Its
    distribution is simulated. So it counts the finite samples of the components, and weights of 0. Labels are not used.
    """
    observed = statistics(simulation.counts, simulation.solved)[0]
    drawn = statistics(simulation.drawn, simulation.again)
    p_value = (1 + int((drawn >= observed).sum())) / (1 + len(drawn))
    return Fitness(float(observed), float(p_value), len(drawn))


def statistics(counts: BinCounts, solved: Solution) -> Floats:
    """Return G^2 (S,) of problems without labels, at their solutions."""
    full = _saturated(counts.candidates) + _saturated(counts.components).sum(axis=-1)
    lacking: Floats = np.maximum(2 * (full - solved.likelihood), 0.0)
    return lacking


def _saturated(counts: Floats) -> Floats:
    """Return sum_b c_b log(c_b / sum c) along the last axis."""
    shares = counts / counts.sum(axis=-1, keepdims=True)
    total: Floats = (counts * np.log(np.where(counts > 0, shares, 1.0))).sum(axis=-1)
    return total


def unlabelled_brier(positives: Probabilities, candidates: Probabilities, base_rate: float) -> float:
    """Return the Brier score of probabilities for the candidates, without labels: see above.

    positives   (n,) probabilities of the positives, at the base rate of the candidates
    candidates  (u,) probabilities of the candidates
    base_rate   alpha, in (0, 1)

    Its expected value is that of the Brier score with labels, if the positives are like the true candidates.
    """
    return float((candidates**2).mean() - 2 * base_rate * positives.mean() + base_rate)


def unlike(positives: Probabilities, candidates: Probabilities, base_rate: float) -> tuple[float, float]:
    """Return which share of the true candidates cannot be like the positives, and what that costs.

    The share is an estimate of the least one, in [0, 1]; 0: no sure sign. The cost is what the Brier score of
    `unlabelled_brier` lacks for this reason, at least 0. Probabilities have not seen the rows.

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
        return 0.0, 0.0
    gap = float(positives[positives >= limits[best]].mean() - candidates[below].mean())
    return float(excess[best]) / base_rate, 2 * float(excess[best]) * gap
