"""The test of fit: do the candidates contain mistakes that no strategy resembles?"""

from dataclasses import dataclass

import numpy as np

from kgcore.arrays import Floats
from kgcore.mixture.bins import BinCounts
from kgcore.mixture.em import Solution, simulate, solve


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
