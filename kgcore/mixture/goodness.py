"""The test of fit: do the candidates contain mistakes that no strategy resembles?"""

from dataclasses import dataclass

import numpy as np

from kgcore.arrays import Floats
from kgcore.mixture.bins import Counts
from kgcore.mixture.draws import simulate
from kgcore.mixture.em import Solution, solve


@dataclass(frozen=True)
class Fitness:
    """The result of the test of fit.

    statistic   G^2, at least 0: twice the log-likelihood that the mixture lacks to explain every bin
    p_value     share of simulated data sets with at least this statistic, in (0, 1]
    replicates  number of simulated data sets
    expected    mean statistic of the simulated data sets; 0 in fits that were stored by an older version
    """

    statistic: float
    p_value: float
    replicates: int
    expected: float = 0.0


def fitness(counts: Counts, best: Solution, alpha: float | None, replicates: int, rng: np.random.Generator) -> Fitness:
    """Test whether a mixture of the components explains the candidates of one problem (S = 1).

    best   the solution of the problem
    alpha  the stated base rate, which the hypothesis then includes; None: any base rate

    G^2 = 2 (log-likelihood with a free probability for each bin in each sample - greatest log-likelihood). Its
    distribution is simulated: candidates and components are drawn again from the fitted densities, and fitted again
    (parametric bootstrap). So it counts the finite samples of the components, and weights of 0. Labels are not used.
    """
    own = counts.without_labels()
    fixed = None if alpha is None else np.array([alpha])
    solved = solve(own, fixed, start=best) if counts.labels else best
    drawn = simulate(own, solved, replicates, rng)
    many = None if alpha is None else np.full(replicates, alpha)
    found = statistics(own, solved)[0]
    simulated = statistics(drawn, solve(drawn, many, start=solved.repeat(replicates)))
    p_value = (1 + int((simulated >= found).sum())) / (1 + replicates)
    return Fitness(float(found), float(p_value), replicates, float(simulated.mean()))


def statistics(counts: Counts, solved: Solution) -> Floats:
    """Return G^2 (S,) of problems without labels, at their solutions."""
    full = _saturated(counts.candidates) + _saturated(counts.components).sum(axis=-1)
    lacking: Floats = np.maximum(2 * (full - solved.likelihood), 0.0)
    return lacking


def _saturated(counts: Floats) -> Floats:
    """Return sum_b c_b log(c_b / sum c) along the last axis."""
    shares = counts / counts.sum(axis=-1, keepdims=True)
    total: Floats = (counts * np.log(np.where(counts > 0, shares, 1.0))).sum(axis=-1)
    return total
